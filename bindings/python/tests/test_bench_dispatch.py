"""bench/dispatch.py: what its rows say, when it resumes, and one small round."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "bench/dispatch.py"


@pytest.fixture
def dispatch(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("bench_dispatch", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rounds_of(dispatch, *added):
    factors = {"idle": 1, "miss64": 2, "hit": -1}
    return [
        {o: {c: {"bare": 400.0, "added": k * a} for c, k in factors.items()} for o in dispatch.OVERLOADS}
        for a in added
    ]


def test_a_row_is_the_median_of_rounds_between_the_extremes(dispatch):
    rounds = rounds_of(dispatch, 10.0, 30.0, 20.0)
    rounds[0]["aten::add.Tensor"]["idle"]["added"] = 90.0
    idle, miss, hit = dispatch.rows(rounds)
    assert (idle["case"], idle["overload"], idle["added_ns"], idle["low"], idle["high"]) == (
        "idle",
        "aten::add.Tensor",
        30.0,
        20.0,
        90.0,
    )
    assert (miss["added_ns"], miss["low"], miss["high"], miss["eager_ns"]) == (40.0, 20.0, 60.0, 400.0)
    assert (hit["low"], hit["high"]) == (-30.0, -10.0)


def test_the_interval_holds_the_median_with_95_percent(dispatch):
    """1 - 2 * P(Binomial(n, 1/2) < k + 1): 97 % of six by the extremes, 96 % of twelve by the third, 98 % of sixteen by the fourth."""
    cut = {1: 0, 5: 0, 6: 0, 8: 0, 9: 1, 12: 2, 16: 3, 20: 5}
    for n, k in cut.items():
        assert dispatch.interval([float(v) for v in range(n)]) == (k, n - 1 - k), n


def test_an_unfinished_file_of_this_machine_is_taken_up(dispatch, tmp_path):
    path = tmp_path / "r.json"
    shape = {"blocks": dispatch.BLOCKS["cpu"], "inner": dispatch.INNER}
    rounds = rounds_of(dispatch, 1.0, 2.0)
    path.write_text(json.dumps({"env": {"cpu": "a"}, **shape, "rounds": rounds}))
    assert dispatch.unfinished(path, {"cpu": "a"}) == rounds
    assert dispatch.unfinished(path, {"cpu": "b"}) == []
    path.write_text(json.dumps({"env": {"cpu": "a"}, **shape, "rounds": rounds * 4}))
    assert dispatch.unfinished(path, {"cpu": "a"}) == []
    assert dispatch.unfinished(tmp_path / "none.json", {}) == []


@pytest.mark.slow
def test_a_round_runs_and_counts_its_hits(dispatch, monkeypatch):
    """Raises if a hit was not served every time, or a miss was."""
    monkeypatch.setitem(dispatch.BLOCKS, "cpu", 2)
    before = os.sched_getaffinity(0)
    medians = dispatch.one_round(seed=1)
    assert os.sched_getaffinity(0) == before
    assert set(medians) == set(dispatch.OVERLOADS)
    assert all(list(m) == ["idle", "miss64", "hit"] for m in medians.values())
    assert all(case["bare"] > 0 for m in medians.values() for case in m.values())
