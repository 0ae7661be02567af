"""Rows and results as bench/ops.py writes them, for its tests."""

from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench"


def modules(monkeypatch):
    """Return the modules of the bench by name, as it imports them itself."""
    monkeypatch.syspath_prepend(BENCH)
    import ops
    import ops_cases
    import ops_goals
    import ops_plot

    class Modules:
        pass

    found = Modules()
    found.ops, found.cases, found.goals, found.plot = ops, ops_cases, ops_goals, ops_plot
    return found


def row(case, eager=10.0, ours=5.0, copy=4.0, **more):
    low = more.pop("low", eager / ours)
    return {
        "case": case,
        "op": "aten::op",
        "dtype": "float32",
        "layout": "contiguous",
        "group": "first",
        "native": True,
        "vendor": False,
        "bytes": 1e7,
        "roof_us": 3.0,
        "copy_us": copy,
        "eager_us": eager,
        "inductor_us": 7.0,
        "autotune_us": 6.0,
        "tuned_us": None,
        "kernelforge_us": ours,
        "ratio": eager / ours,
        "low": low,
        "high": 3.0,
        "served": ours != eager,
        "against": {"copy": {"low": copy / ours}},
        "recheck_ratio": None,
        "made": "2026-11-30T00:00:00Z",
        "commit": "abc",
        "ways": [],
        "search": {},
    } | more


def result(rows):
    env = {"device": "A <GPU>", "driver": "1", "torch": "2.15.0", "threads": 2}
    return {
        "schema": 1,
        "made": "2026-11-30T00:00:00Z",
        "env": env,
        "copy_gbs": 4300.0,
        "summary": {},
        "rows": rows,
    }
