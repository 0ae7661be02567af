"""`kernelforge repro NODE -o DIR`: a failing candidate as a folder that runs alone and fails again."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import _studies
from ..errors import UsageFault
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "node", metavar="NODE", help="a node's number, or CARD/NUMBER where the study has several cards"
    )
    p.add_argument("-o", "--out", required=True, metavar="DIR", help="a new folder")
    p.add_argument("--study", help="name of the study; default: the newest")
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    from .. import _repro

    card, _, number = str(args.node).rpartition("/")
    if not number.isdigit():
        raise UsageFault(f"reproduce `{args.node}`: it is no node (expected a number, or CARD/NUMBER)")
    known = _studies.studies(args.store)
    name = args.study or (known[0]["study"] if known else None)
    study = _studies.load(str(name), args.store)
    runs = [r for r in study["runs"] if not card or card == r["card"] or card in r["overload"]]
    if len(runs) != 1:
        names = ", ".join(f"{r['card']} ({r['overload']})" for r in runs or study["runs"])
        raise UsageFault(
            f"reproduce `{args.node}` of `{name}`: {'several runs fit' if runs else 'no run fits'} (found {names})",
            hint="CARD/NUMBER names the run: `kernelforge show STUDY` lists them",
        )
    about = _repro.write(str(name), runs[0]["card"], int(number), args.store, Path(args.out))
    verdict = about["verdict"]
    text = (
        f"`{args.out}`: {verdict['status']}: {verdict['detail']}\n"
        f"inputs: {about['inputs']}\n`python {Path(args.out) / 'run.py'}` judges it again"
    )
    options.emit(args, {"folder": str(args.out), **about}, text)
    return 0
