"""`kernelforge ask STUDY CARD`: what an author must know to write a kernel for an operator; without CARD the operators of the study."""

from __future__ import annotations

import argparse
from typing import Any

from .._report import table
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("study", help="name of a study")
    p.add_argument("card", nargs="?", help="a card's id or a part of its operator's name; without: all cards")
    p.add_argument(
        "--parent", type=int, default=0, metavar="NODE", help="node to improve on (0: eager itself)"
    )
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    from .._study import ask, cards

    if args.card is None:
        found = cards(args.study, args.store)
        options.emit(args, {"schema": 1, "study": args.study, "cards": found}, _list(found))
        return 0
    brief = ask(args.study, args.store, args.card, args.parent)
    text = brief.pop("text")
    options.emit(args, {"study": args.study, **brief}, text)
    return 0


def _list(found: list[dict[str, Any]]) -> str:
    head = ["card", "operator", "share", "eager us", "copy us", "nodes", "best cost", "at node"]
    rows = [
        [
            c["card"],
            c["overload"],
            f"{100 * c['share']:.1f} %",
            f"{c['eager_us']:.1f}",
            f"{c['roof_us']:.1f}",
            str(c["nodes"]),
            f"{c['best']:.3f}",
            str(c["best_node"]),
        ]
        for c in found
    ]
    return "\n".join(table(head, rows, right=(2, 3, 4, 5, 6, 7)))
