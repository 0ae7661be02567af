"""`kernelforge explain MODEL`: for each call of one forward, the plan or the reason."""

from __future__ import annotations

import argparse

from . import options
from .run import apply_named


def add(p: argparse.ArgumentParser) -> None:
    options.add_model(p)
    p.add_argument(
        "--pack", action="append", default=[], help="pack folder (repeatable); default: as for `run`"
    )


def run(args: argparse.Namespace) -> int:
    import torch

    from .._stats import explain

    made = options.made_from(args)
    device = None if args.device == "cpu" else args.device
    apply_named(args.pack, None, strict=bool(args.pack), device=device)
    with torch.no_grad():
        result = explain(made.model, made.inputs)
    options.emit(args, result.to_dict(), str(result))
    return 0
