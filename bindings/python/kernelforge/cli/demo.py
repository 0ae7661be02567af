"""`kernelforge demo`: googlenet on this machine's CPU, from profile to result. Random weights: speed does not depend on them."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .. import _settings
from .._progress import span
from .._report import Report, write_whole
from . import options

_MODEL, _BATCH = "googlenet", 4
_BUDGET_S = 150.0
_CANDIDATES = 16
_PAIRS_AGAIN = 12  # when the study is there already: enough to see the same ratio again, in seconds


def add(p: argparse.ArgumentParser) -> None:
    options.add_search(p)
    p.add_argument("--threads", type=options.threads, help="torch's threads; a pin of the pack")
    p.add_argument("--seed", type=options.seed, default=0)
    p.add_argument("--fresh", action="store_true", help="forget an earlier demo and search again")
    p.add_argument("--results", metavar="FILE", help="write the result file (JSON), too")
    p.add_argument(
        "--html", metavar="FILE", help="where to write the report's page; default: beside the pack"
    )
    p.set_defaults(model=_MODEL, batch=_BATCH, dtype="float32", channels_last=False, device="cpu")


def run(args: argparse.Namespace) -> int:
    for option in ("html", "results"):
        if getattr(args, option):
            _settings.file_place(getattr(args, option), f"--{option}")
    made = options.made_from(args)
    import torch

    from .._optimize import optimize, report

    say = options.say
    say(f"demo: {made.note} (speed does not depend on the weights), {torch.get_num_threads()} threads")
    say(
        "  1. profile the model   2. search kernels for operators that are worth it   3. judge   4. serve winners   5. measure the whole model"
    )
    budget = args.budget_s or _BUDGET_S
    say(
        f"  no candidate is begun after {span(budget)} of search; what is confirmed and measured then comes on top"
    )
    with torch.no_grad():
        optimize(
            made.model,
            made.inputs,
            study=args.study,
            store=args.store,
            candidates=args.candidates or _CANDIDATES,
            max_seconds=budget,
            seed=args.seed,
            fresh=args.fresh,
            name=made.name,
            note=made.note,
        )
        result = report(made.model)
        data = result.to_dict()
        again = _measure_again(made, data) if data["reused"] and data["pack"] else None
    page = Path(args.html) if args.html else _page_of(data)
    data["page"] = str(page)
    result = Report(data)
    result.save(page)
    if args.results:
        write_whole(
            Path(args.results),
            json.dumps({**_portable(data), "command": _command(args), "commit": _commit()}, indent=1) + "\n",
        )
    text = str(result) if args.results is None else f"{result}\nresults: {args.results}"
    if again is not None:
        data["again"] = again
        text += (
            f"\nmeasured before ({data['made']}) and again now: {again['eager_ms']:.1f} -> {again['kernelforge_ms']:.1f} ms, at least {again['low']:.2f}x "
            f"(median {again['ratio']:.2f}x, 95 % interval {again['low']:.2f} to {again['high']:.2f}, {again['samples']} pairs)"
        )
    options.emit(args, data, text)
    if not args.json:
        if data["reused"]:
            say("this is what an earlier demo found; `kernelforge demo --fresh` searches again")
        activate = Path(sys.prefix) / "bin" / "activate"
        if shutil.which("kernelforge") is None and activate.is_file():
            say(f"`. {activate}` lets the shell find `kernelforge`, and a `python` that has it")
        say(
            "next: `kernelforge report --html report.html`, `kernelforge optimize my_model.py:factory`, `kernelforge run script.py`"
        )
    return 0


def _measure_again(made: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Time the whole model once more in this process: the stored numbers are of an earlier one."""
    from .. import _ext, _measure
    from .._inputs import forward_of

    forward = forward_of(made.model, made.inputs)
    with _ext.switch(_ext.load()) as switch:
        return _measure.time_model(forward, switch, blocks=_PAIRS_AGAIN, seed=1).to_dict()


def _page_of(data: dict[str, Any]) -> Path:
    return _settings.read().data / "reports" / f"{data['study']}.html"


def _portable(data: dict[str, Any]) -> dict[str, Any]:
    """Return the report without the places of this machine: a result file is read elsewhere."""
    return {k: v for k, v in data.items() if k not in ("store", "pack", "page")}


def _command(args: argparse.Namespace) -> str:
    parts = ["kernelforge demo"]
    if args.fresh:
        parts.append("--fresh")
    if args.budget_s is not None:
        parts.append(f"--budget-s {args.budget_s:g}")
    if args.candidates is not None:
        parts.append(f"--candidates {args.candidates}")
    if args.threads is not None:
        parts.append(f"--threads {args.threads}")
    return " ".join([*parts, f"--results {args.results}"])


def _commit() -> str | None:
    """Return the commit of the checkout that this package is run from, None outside one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
