"""`kernelforge show [STUDY [CARD [NODE]]]`: the studies, the runs of one, the tree of a run, or one node with its source."""

from __future__ import annotations

import argparse
from typing import Any

from .. import _authors, _studies
from .._progress import span
from .._report import controls_of, table
from ..errors import UsageFault
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("study", nargs="?", help="name of a study; without: all studies")
    p.add_argument("card", nargs="?", help="a card's id or a part of its operator's name: its tree")
    p.add_argument("node", nargs="?", type=int, help="a node's number: candidate, verdict, log")
    p.add_argument("--source", action="store_true", help="with NODE: only the source")
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    if args.study is None:
        return _all(args)
    study = _studies.load(args.study, args.store)
    if args.card is None:
        return _one(args, study)
    chosen = [r for r in study["runs"] if args.card == r["card"] or args.card in r["overload"]]
    if len(chosen) != 1:
        names = ", ".join(f"{r['card']} ({r['overload']})" for r in chosen or study["runs"])
        found = "several runs fit" if chosen else "no run fits"
        raise UsageFault(
            f"show `{args.card}` of `{args.study}`: {found} (found {names})", hint="give the card's id"
        )
    return _tree(args, chosen[0]) if args.node is None else _node(args, chosen[0])


def _all(args: argparse.Namespace) -> int:
    found = _studies.studies(args.store)
    rows = [[s["study"], s["model"], s["state"], s["made"], str(s["runs"])] for s in found]
    text = (
        "\n".join(table(["study", "model", "state", "made", "runs"], rows, right=(4,)))
        if rows
        else "no study"
    )
    options.emit(args, {"schema": 1, "studies": found}, text)
    return 0


def _one(args: argparse.Namespace, study: dict[str, Any]) -> int:
    rows = []
    for r in study["runs"]:
        counts = ", ".join(f"{n} {s}" for s, n in _studies.verdicts(r).items())
        best = f"{r['best']:.3f}"
        rows.append(
            [
                r["card"],
                r["overload"],
                str(len(r["nodes"]) - 1),
                best,
                str(len(r["winners"])),
                counts or r["why"],
            ]
        )
    text = table(["card", "operator", "nodes", "best cost", "winners", "verdicts"], rows, right=(2, 3, 4))
    text += [
        "",
        f"state: {study['state']}, {study['spend']['candidates']} candidates, {span(study['spend']['seconds'])}",
    ]
    text += _authors.lines(_authors.spent(study, study["runs"]))
    text += controls_of(
        {f"{r['overload']} {r['card']}": r["controls"] for r in study["runs"] if r["controls"]}
    )
    if study["waiting"]:
        text.append(f"{len(study['waiting'])} winners wait: `kernelforge approve {args.study}`")
    options.emit(args, {"schema": 1, "study": args.study, **study}, "\n".join(text))
    return 0


def _tree(args: argparse.Namespace, run: dict[str, Any]) -> int:
    children: dict[int, list[dict[str, Any]]] = {}
    for n in run["nodes"]:
        if n["node"] != 0:
            children.setdefault(n["parent"], []).append(n)
    lines = [f"{run['overload']}: eager (cost 1)"]

    def walk(parent: int, indent: str) -> None:
        below = children.get(parent, [])
        for i, n in enumerate(below):
            last = i == len(below) - 1
            end = f"{n['cost']:.3f}" if n["status"] == "ok" else n["status"]
            if repairs := n.get("repairs", 0):
                end += f", {repairs} repair{'s' if repairs > 1 else ''}"
            if n.get("unfinished"):
                end += ", unfinished (not disproved)"
            lines.append(f"{indent}{'└─' if last else '├─'} {n['node']} {n['family']} {n['change']}: {end}")
            walk(n["node"], indent + ("   " if last else "│  "))

    walk(0, "")
    options.emit(args, {"schema": 1, "study": args.study, **run}, "\n".join(lines))
    return 0


def _node(args: argparse.Namespace, run: dict[str, Any]) -> int:
    node = _studies.node(args.study, run["card"], args.node, args.store)
    candidate, verdict = node["candidate"], node["verdict"]
    if candidate is None:
        raise UsageFault(
            f"show node {args.node} of `{run['overload']}`: it is the root, eager itself (expected 1 or more)"
        )
    if args.source:
        options.emit(args, {"schema": 1, "source": candidate["source"]}, candidate["source"])
        return 0
    cost = f", cost {verdict['cost']:.4f}" if verdict["status"] == "ok" else ""
    lines = [
        f"node {args.node} of {run['overload']}: {candidate['family']} {candidate['change']}".rstrip(),
        f"parameters: {', '.join(f'{k}={v}' for k, v in candidate['params'].items())}",
        f"verdict: {verdict['status']}{cost}" + (f": {verdict['detail']}" if verdict["detail"] else ""),
        *(
            f"  {v['id']}: {v['candidate_us']:.1f} us, eager {v['eager_us']:.1f} us, cost {v['cost']:.3f}"
            for v in verdict.get("variants") or []
        ),
    ]
    if node.get("log"):
        lines += ["log:", str(node["log"])]
    for a in node.get("attempts") or []:
        step = a["candidate"]["change"] or (f"reply {a['reply'][:12]}" if a.get("reply") else "")
        lines.append(
            f"step {a['attempt']}, sent back to its author: {a['verdict']['status']}: {step}".rstrip(": ")
        )
    options.emit(args, {"schema": 1, "node": args.node, **node}, "\n".join([*lines, "", candidate["source"]]))
    return 0
