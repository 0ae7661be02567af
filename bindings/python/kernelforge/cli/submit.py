"""`kernelforge submit STUDY CARD FILE SPEC`: the judge's verdict on a kernel; one that is faster is confirmed and served."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ..errors import UsageFault
from . import options

_BUSY_SECONDS = 2.0  # between tries of a study that another process has just let go


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("study", help="name of a study that `kernelforge optimize` began")
    p.add_argument("card", help="a card's id or a part of its operator's name")
    p.add_argument("file", help="the kernel's source")
    p.add_argument("spec", help="its launch spec, a JSON file (`kernelforge ask` shows the form)")
    p.add_argument("--parent", type=int, default=0, metavar="NODE", help="node it improves on (0: eager)")
    p.add_argument("--idea", default="", help="what differs from the parent, in words")
    p.add_argument(
        "--by", choices=("person", "agent"), default="person", help="who wrote it, for the tree and reports"
    )
    p.add_argument("--model", help="where the study's model is now, if not in this folder: `file.py:factory`")
    p.add_argument(
        "--only-judge",
        action="store_true",
        help="confirm and serve nothing now: the next `submit` or `optimize` does",
    )
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    from .. import _study

    source, spec = _text(args.file), _spec(args.spec)
    sent = _study.submit(
        args.study,
        args.store,
        args.card,
        source,
        spec,
        parent=args.parent,
        idea=args.idea or Path(args.file).stem,
        author=args.by,
    )
    answer = _answered(args, sent["card"], sent["candidate"])
    served = [] if answer["served"] is None else answer["served"]
    options.emit(args, {"schema": 1, "study": args.study, **answer}, _words(answer, served))
    return 0 if answer["verdict"]["status"] == "ok" else 4


def _answered(args: argparse.Namespace, card: str, candidate: str) -> dict[str, Any]:
    """Return the answer; `served` are the variants that the candidate serves from now on, None where that was not decided here."""
    import torch

    from .. import _study
    from ..errors import LockedFault, RefereeFault

    known = _study.answer_of(args.study, args.store, card, candidate)
    if known["state"] == "judged":
        return {**known, "served": None}
    told = False
    while True:
        if _study.running(args.study, args.store):
            if not told:
                options.say(f"another process runs `{args.study}`: it judges the candidate")
                told = True
            answer = _study.wait(args.study, args.store, card, candidate)
            if answer is not None:
                if answer["state"] == _study.UNJUDGED:
                    raise RefereeFault(f"judge `{candidate}` on the card `{card}`: {answer['why']}")
                return {**answer, "served": None}
        try:
            with torch.no_grad():
                return _here(args, card, candidate)
        except LockedFault:
            time.sleep(_BUSY_SECONDS)


def _here(args: argparse.Namespace, card: str, candidate: str) -> dict[str, Any]:
    """Judge in this process, with the study's model."""
    from .. import _study

    with _study.Study.again(args.study, args.store, model=args.model) as study:
        answer = study.answer(card, candidate)
        serve = answer["verdict"]["status"] == "ok" and not args.only_judge
        study.close(serve=serve)
    answer = _study.answer_of(args.study, args.store, card, candidate)
    withdrawn = study.report is None or study.report.to_dict()["withdrawn"]
    return {**answer, "served": [] if withdrawn or not serve else answer["serves"]}


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageFault(f"read the source `{file}`: {getattr(e, 'strerror', None) or e}") from e


def _spec(file: str) -> dict[str, Any]:
    try:
        spec = json.loads(_text(file))
    except json.JSONDecodeError as e:
        raise UsageFault(
            f"read the launch spec `{file}`: {e}", hint="`kernelforge ask` shows one that works"
        ) from e
    if not isinstance(spec, dict):
        raise UsageFault(f"read the launch spec `{file}`: found a {type(spec).__name__} (expected an object)")
    return spec


def _words(answer: dict[str, Any], served: list[str]) -> str:
    verdict = answer["verdict"]
    ok = verdict["status"] == "ok"
    cost = f", cost {verdict['cost']:.4f} ({1 / verdict['cost']:.2f}x)" if ok else ""
    gate = f" at the gate `{verdict['gate']}`" if verdict.get("gate") else ""
    lines = [f"node {answer['node']}: {verdict['status']}{cost}{gate}"]
    lines += [f"  {line}" for line in str(verdict["detail"]).splitlines()]
    lines += [
        f"  {v['id']}: {v['candidate_us']:.1f} us, eager {v['eager_us']:.1f} us, cost {v['cost']:.3f}"
        for v in verdict["variants"]
    ]
    lines += [f"  {line}" for line in answer["measured"]]
    for c in answer["confirmed"]:
        accepted = "accepted" if c["accepted"] else f"not accepted: {c['detail']}"
        lines.append(f"  {c['variant']} confirmed: {c['ratio']:.2f}x (at least {c['low']:.2f}x), {accepted}")
    if served:
        lines.append(f"it serves {', '.join(served)}")
    elif ok and answer["best"] < verdict["cost"]:
        lines.append(f"the best of its operator has cost {answer['best']:.4f}")
    return "\n".join(lines)
