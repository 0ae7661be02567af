"""`kernelforge approve STUDY|PACK [PLAN ...]`: serve winners that were left proposed."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import _pack
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("what", metavar="STUDY|PACK", help="a study's name, or the folder of a pack")
    p.add_argument("plans", nargs="*", metavar="PLAN", help="ids of plans; default: all that are proposed")
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    plans = args.plans or None
    if (Path(args.what) / "pack.json").is_file() or args.what.endswith("pack.json"):
        folder, ids = _pack.folder_of(args.what), _pack.approve(args.what, plans)
    else:
        from .._studies import approve_study

        folder, ids = approve_study(args.what, args.store, plans, by="the command line")
    text = (
        f"approved {len(ids)} plans: {', '.join(ids)}\n`kernelforge run --pack {folder} script.py` serves them"
        if ids
        else "nothing was proposed"
    )
    options.emit(args, {"schema": 1, "approved": ids, "pack": str(folder)}, text)
    return 0
