"""`kernelforge sign PACK --key FILE`: signs a pack as it is now; what changes it later ends the signature."""

from __future__ import annotations

import argparse

from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("pack", metavar="PACK", help="folder of a pack")
    p.add_argument("--key", metavar="FILE", required=True, help="private key that `kernelforge keygen` wrote")


def run(args: argparse.Namespace) -> int:
    from .._trust import sign

    made = sign(args.pack, args.key)
    options.emit(args, made, f"signed `{args.pack}` with the key {made['key']}")
    return 0
