"""How near valid algorithms come to the limits of the tolerance rule, and how far wrong outputs stay away. Writes bench/results/tolerance-pilot-host.json.

    python bench/tolerance_pilot.py --budget-s 300
    python bench/tolerance_pilot.py --budget-s 300 --device cuda

A row is one call in one type, on the inputs that the judge uses. `valid` is the largest part of a limit that a valid algorithm takes, by test: element (T2 and
T4), group, rmse, bias (T3); above 1 it would be refused. Valid are the other algorithms of the tests (two passes for Welford's recurrence, other orders of
summation, other forms of a function), and eager itself made to work otherwise: one thread, without oneDNN, on channels_last data, on slices. `wrong` is the smallest
number of times by which a negative control (T5) or a mistake of the tests exceeds a limit; null where all of them fail a test that has no size (bits, NaN,
integers). A run that was ended early is taken up where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import resumed
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings/python/tests"))

from calling import call_of  # noqa: E402
from kernelforge import _pins  # noqa: E402
from kernelforge._place import HOST, Place, place_of  # noqa: E402
from kernelforge.referee.bounds import Bound, compare  # noqa: E402
from kernelforge.referee.calls import clone, map_tensors  # noqa: E402
from kernelforge.referee.cases import Variant, bounds_of  # noqa: E402
from kernelforge.referee.controls import CONTROLS, Case, _mean, _Shared  # noqa: E402
from kernelforge.referee.reference import run_eager  # noqa: E402
from kernelforge.referee.rule import RULE  # noqa: E402
from tolerance_samples import SAMPLES, Sample  # noqa: E402

RESULTS = Path(__file__).parent / "results"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
Algorithm = Callable[[Variant, list[Any]], list[torch.Tensor]]
Held = tuple[str, list[Any], list[Any]]


# ---- other ways to the same result ----------------------------------------------------------------------------------------------------


def _one_thread(v: Variant, arguments: list[Any]) -> list[torch.Tensor]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return run_eager(v.overload, arguments)
    finally:
        torch.set_num_threads(threads)


def _without_onednn(v: Variant, arguments: list[Any]) -> list[torch.Tensor]:
    with torch.backends.mkldnn.flags(enabled=False):  # type: ignore[no-untyped-call]
        return run_eager(v.overload, arguments)


def _channels_last(v: Variant, arguments: list[Any]) -> list[torch.Tensor]:
    def moved(t: torch.Tensor) -> torch.Tensor:
        return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t

    return run_eager(v.overload, map_tensors(arguments, moved))


def _strided(v: Variant, arguments: list[Any]) -> list[torch.Tensor]:
    """Every other element of twice the memory: eager's vector paths do not take it."""

    def moved(t: torch.Tensor) -> torch.Tensor:
        if not t.dim():
            return t
        room = t.new_empty([*t.shape[:-1], 2 * t.shape[-1]])[..., ::2]
        return room.copy_(t)

    return run_eager(v.overload, map_tensors(arguments, moved))


EAGER: dict[str, Algorithm] = {"strided": _strided, "channels_last": _channels_last}
HOST_EAGER: dict[str, Algorithm] = {"one thread": _one_thread, "without oneDNN": _without_onednn}


def _written(f: Callable[..., Any], dtype: torch.dtype) -> Algorithm:
    """Make an algorithm of the tests one: computed in float32 as eager does (float64 for its own), rounded to eager's types."""
    compute = torch.float64 if dtype is torch.float64 else torch.float32

    def run(v: Variant, arguments: list[Any]) -> list[torch.Tensor]:
        out = f(arguments, lambda t: t.to(compute))
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        eager = run_eager(v.overload, arguments)
        return [e if o is None else o.to(e.dtype).reshape(e.shape) for o, e in zip(outs, eager, strict=True)]

    return run


# ---- one row --------------------------------------------------------------------------------------------------------------------------


def row_of(sample: Sample, dtype: torch.dtype, place: Place) -> dict[str, Any]:
    """Hold one call in one type against everything."""
    payload = map_tensors(sample.make(dtype), lambda t: t.to(place.device))
    v = Variant(call_of(sample.overload, payload), payload, 7, place)
    cases: list[Held] = []
    for kind, number in dict.fromkeys((i.kind, i.number) for i in v.inputs() if not i.final):
        arguments = v.arguments(v.draw(kind, number))
        cases.append((f"{kind} {number}", arguments, bounds_of(v.overload, arguments, kind)))
    ways = {**EAGER, **({} if place.cuda else HOST_EAGER)}
    ways |= {name: _written(f, dtype) for name, f in sample.good.items()}
    valid: dict[str, list[Any]] = {}
    refused: dict[str, str] = {}
    for name, way in ways.items():
        for case, arguments, bounds in cases:
            try:
                outs = way(v, map_tensors(arguments, clone))
            except (RuntimeError, NotImplementedError):  # eager takes no such data
                continue
            finding = compare(bounds, outs)
            if finding.status != "ok":
                refused.setdefault(name, f"{case}: {finding.detail}")
            for test, part in _used(bounds, outs):
                if part > valid.get(test, [0.0])[0]:
                    valid[test] = [round(part, 4), name, case]
    wrong = _wrong(v, sample, dtype, cases)
    return {
        "op": sample.name,
        "dtype": str(dtype).removeprefix("torch."),
        "cases": len(cases),
        "algorithms": len(ways),
        "valid": valid,
        "refused": refused,
        **wrong,
        "made": resumed.now(),
    }


def _used(bounds: list[Any], outs: list[torch.Tensor]) -> Iterator[tuple[str, float]]:
    for bound, out in zip(bounds, outs, strict=True):
        if isinstance(bound, Bound):
            yield from bound.used(out).items()


def _wrong(v: Variant, sample: Sample, dtype: torch.dtype, cases: list[Held]) -> dict[str, Any]:
    """Return the smallest excess of a control or mistake over a limit, taking for each the input and the test where it is largest, and what passes."""
    excess: dict[str, float] = {}
    constant = [_mean(b.eager) for b in cases[0][2]]
    for name, control in CONTROLS.items():
        for i in range(len(constant)):
            worst, seen = 0.0, False
            for n, (_, arguments, bounds) in enumerate(cases):
                case = Case(v.overload, arguments, bounds, [b.eager for b in cases[n - 1][2]])
                out = None if not bounds[i].eager.numel() else control(case, i, _Shared(case, constant))
                if out is None or torch.equal(out, bounds[i].eager):
                    continue
                seen = True
                worst = max(
                    worst, _excess(bounds, [out if j == i else b.eager for j, b in enumerate(bounds)])
                )
            if seen:
                key = name if i == 0 else f"{name}, output {i}"
                excess[key] = worst
    for name, f in sample.bad.items():
        if dtype in sample.bad_only.get(name, DTYPES):
            way = _written(f, dtype)
            excess[name] = max(_excess(b, way(v, map_tensors(a, clone))) for _, a, b in cases)
    sized = {k: x for k, x in excess.items() if x < math.inf}
    least = min(sized, key=sized.__getitem__, default=None)
    return {
        "wrong": None if least is None else round(sized[least], 3),
        "wrong_by": least,
        "controls": len(excess),
        "passed": [k for k, x in excess.items() if x <= 1],
    }


def _excess(bounds: list[Any], outs: list[torch.Tensor]) -> float:
    """Return how many times the rule's limit one run of a wrong candidate is; 0 if it passes, infinity where the test has no size."""
    finding = compare(bounds, outs)
    if finding.status == "ok":
        return 0.0
    return max(finding.worst, max((part for _, part in _used(bounds, outs)), default=0.0))


# ---- the file -------------------------------------------------------------------------------------------------------------------------


def main() -> int:
    """Run the rows that are missing, save after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    place = HOST if args.device == "cpu" else place_of(torch.zeros(1, device=args.device).device)
    slug = "host" if not place.cuda else str(place.info()["name"]).split()[-1].lower()
    path = args.out or RESULTS / f"tolerance-pilot-{slug}.json"
    data: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    rows = data.get("rows", []) if data.get("rule") == RULE else []
    done, began = {(r["op"], r["dtype"]) for r in rows}, time.monotonic()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    todo = [(s, d) for d in DTYPES for s in SAMPLES if (s.name, str(d).removeprefix("torch.")) not in done]
    left = 0
    for sample, dtype in todo:
        if time.monotonic() - began > args.budget_s:
            left += 1
            continue
        with torch.no_grad(), place.current():
            rows.append(row_of(sample, dtype, place))
        command = "python bench/tolerance_pilot.py" + ("" if not place.cuda else " --device cuda")
        data = {
            "schema": 1,
            "made": resumed.now(),
            "command": command,
            "commit": commit,
            "env": _pins.environment(place),
            "rule": RULE,
            **summary(rows),
            "rows": rows,
        }
        path.write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps({k: v for k, v in data.items() if k not in ("rows", "env")}, indent=1))
    if left:
        print(f"{left} rows are left: the same command goes on with them", file=sys.stderr)
    return 0


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return over all rows the largest part of each limit that a valid algorithm takes, the smallest excess of a wrong one, and what does not belong."""
    valid: dict[str, dict[str, Any]] = {}
    for r in rows:
        for test, (part, by, case) in r["valid"].items():
            if part > valid.get(test, {"part": -1.0})["part"]:
                valid[test] = {"part": part, "op": r["op"], "dtype": r["dtype"], "by": by, "case": case}
    sized = [r for r in rows if r["wrong"] is not None]
    least = min(sized, key=lambda r: r["wrong"], default=None)
    return {
        "valid": valid,
        "wrong": None
        if least is None
        else {"times": least["wrong"], "op": least["op"], "dtype": least["dtype"], "by": least["wrong_by"]},
        "algorithms": sum(r["algorithms"] for r in rows),
        "controls": sum(r["controls"] for r in rows),
        "valid_refused": [
            f"{r['op']} {r['dtype']}: {n}: {why}" for r in rows for n, why in r["refused"].items()
        ],
        "wrong_passed": [f"{r['op']} {r['dtype']}: {n}" for r in rows for n in r["passed"]],
    }


if __name__ == "__main__":
    sys.exit(main())
