"""Winners in fresh processes: one that serves, one that crashes there, one that is wrong there; and what is told when no process starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import packs
from kernelforge import _fresh
from kernelforge._place import HOST


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plan_of(folder: Path, body: str) -> dict[str, Any]:
    """Return {"plan", "image"} for relu on [64, 1000] made of one line of C++."""
    packs.write(folder, body)
    plan = json.loads((folder / "pack.json").read_text())["plans"][0]
    plan = {k: v for k, v in plan.items() if k not in ("code", "source", "evidence")}
    return {"plan": plan, "image": str(next((folder / "code").iterdir()))}


def served(item: dict[str, Any], **options: Any) -> dict[str, Any]:
    given = {"place": HOST, "processes": 1, "blocks": 4, "seed": 3, "seconds": 0.0, **options}
    return _fresh.serve([item], **given)


def test_a_fresh_process_serves_and_times_a_plan(tmp_path):
    found = served(plan_of(tmp_path / "p", packs.RIGHT), processes=2)
    assert (found["processes"], found["why"]) == (2, "")
    assert [(r["plan"], r["process"], r["status"]) for r in found["results"]] == [
        ("p-relu", 0, "ok"),
        ("p-relu", 1, "ok"),
    ]
    for r in found["results"]:
        assert set(r) == {"plan", "process", "status", "detail", "eager_ns", "ours_ns"}
        assert (
            len(r["eager_ns"]) == len(r["ours_ns"]) in (4, 16)
        )  # more where it did not look faster at first
        assert min(r["eager_ns"] + r["ours_ns"]) > 0


def test_a_plan_that_crashes_in_a_fresh_process_is_named_and_left_out(tmp_path):
    found = served(plan_of(tmp_path / "p", packs.CRASH), processes=1)
    assert (found["processes"], found["why"]) == (0, "")
    (result,) = found["results"]
    assert (result["plan"], result["status"], result["eager_ns"]) == ("p-relu", "crash", [])
    assert "code -11" in result["detail"]


def test_a_plan_that_is_wrong_in_a_fresh_process_has_no_times(tmp_path):
    (result,) = served(plan_of(tmp_path / "p", packs.WRONG))["results"]
    assert (result["status"], result["eager_ns"]) == ("wrong_value", [])
    assert "T1" in result["detail"]


def test_a_process_that_does_not_start_is_told_and_blames_no_plan(tmp_path, monkeypatch):
    item = {"plan": {"id": "p-1", "threads": 1}, "image": "none.so"}
    monkeypatch.setattr(
        _fresh,
        "_start",
        lambda task, threads: _fresh.Child(["-S", "-c", "raise SystemExit('no memory')"], {}),
    )
    found = served(item, processes=2)
    assert (found["processes"], found["results"]) == (0, [])
    assert found["why"] == "a fresh process could not start: code 1, no memory"


def test_processes_take_turns_until_the_seconds_are_spent(monkeypatch):
    code = (
        "import json, sys; turn = json.loads(sys.stdin.readline())\n"
        "for p in turn['plans']:\n"
        "  print(json.dumps({'begin': p}), flush=True)\n"
        "  if p == 'p-bad': raise SystemExit(7)\n"
        "  print(json.dumps({'plan': p, 'status': 'ok', 'detail': str(turn['seed']), 'eager_ns': [2.0], 'ours_ns': [1.0]}), flush=True)\n"
        "print(json.dumps({'done': True}))"
    )
    monkeypatch.setattr(_fresh, "_start", lambda task, threads: _fresh.Child(["-S", "-c", code], {}))
    plans = [{"plan": {"id": p, "threads": 1}, "image": ""} for p in ("p-good", "p-bad", "p-other")]
    given = {"place": HOST, "blocks": 4, "seed": 3}
    found = _fresh.serve(plans, processes=2, seconds=0.0, **given)
    ended = [(r["plan"], r["process"], r["status"]) for r in found["results"]]
    # The first process ends at p-bad; the next two serve the others.
    assert ended == [
        ("p-good", 0, "ok"),
        ("p-bad", 0, "crash"),
        *[(p, turn, "ok") for turn in (1, 2) for p in ("p-good", "p-other")],
    ]
    assert (found["processes"], found["why"]) == (2, "")
    found = _fresh.serve(plans[:1], processes=3, seconds=1e-9, **given)
    assert found["processes"] == 1
    assert found["why"] == "no time was left after 1 of 3 fresh processes"
