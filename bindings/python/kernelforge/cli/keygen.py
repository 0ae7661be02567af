"""`kernelforge keygen FILE`: a private key and, beside it, the public one for `--trust`."""

from __future__ import annotations

import argparse

from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE", help="of the private key; the public one is FILE.pub")


def run(args: argparse.Namespace) -> int:
    from .._trust import keygen, public_key

    private, public = keygen(args.file)
    found = {
        "schema": 1,
        "private": str(private),
        "public": str(public),
        "key": public_key(public).hex(),
    }
    text = f"private key: {private} (keep it secret)\npublic key:  {public} (give it to whoever applies your packs: `--trust {public}`)"
    options.emit(args, found, text)
    return 0
