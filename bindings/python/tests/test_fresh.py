"""Winners in fresh processes: one that serves, one that crashes there, one that is wrong there; what is told when no process starts; and processes that
were started ahead."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import packs
from kernelforge import _fresh, _search
from kernelforge._interrupts import Terminated
from kernelforge._job import Job
from kernelforge._place import HOST, Place
from kernelforge.referee import Referee, ruler
from referee_worker import relu_card


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
        lambda threads: _fresh.Child(["-S", "-c", "raise SystemExit('no memory')"], {}),
    )
    found = served(item, processes=2)
    assert (found["processes"], found["results"]) == (0, [])
    assert found["why"] == "a fresh process could not start: code 1, no memory"


# A process as `serve` sees it, without torch. It says whether every other one had opened its device before its turn.
SCRIPT = """
import glob, json, os, sys
print(json.dumps({"has": "torch"}), flush=True)
task = json.loads(sys.stdin.readline())["task"]
open(f"{task}.{os.getpid()}", "w").close()
print(json.dumps({"has": "device"}), flush=True)
turn = json.loads(sys.stdin.readline())
opened = len(glob.glob(task + ".*"))
for p in turn["plans"]:
    print(json.dumps({"begin": p}), flush=True)
    if p == "p-bad": raise SystemExit(7)
    told = {"seed": turn["seed"], "opened": opened, "pid": os.getpid()}
    print(json.dumps({"plan": p, "status": "ok", "detail": json.dumps(told), "eager_ns": [2.0], "ours_ns": [1.0]}), flush=True)
print(json.dumps({"done": True}))
"""


@pytest.fixture
def scripted(monkeypatch) -> list[_fresh.Child]:
    """Have processes run the script; return those that were started."""
    started: list[_fresh.Child] = []

    def start(threads: int) -> _fresh.Child:
        started.append(_fresh.Child(["-S", "-c", SCRIPT], {}))
        return started[-1]

    monkeypatch.setattr(_fresh, "_start", start)
    return started


def some(*plans: str) -> list[dict[str, Any]]:
    return [{"plan": {"id": p, "threads": 1}, "image": ""} for p in plans]


GIVEN: dict[str, Any] = {"place": HOST, "blocks": 4, "seed": 3, "seconds": 0.0}


def pids(found: dict[str, Any]) -> list[int]:
    return [json.loads(r["detail"])["pid"] for r in found["results"]]


def test_processes_take_turns_until_the_seconds_are_spent(scripted):
    plans = some("p-good", "p-bad", "p-other")
    found = _fresh.serve(plans, processes=2, **GIVEN)
    ended = [(r["plan"], r["process"], r["status"]) for r in found["results"]]
    # The first process ends at p-bad; the next two serve the others.
    assert ended == [
        ("p-good", 0, "ok"),
        ("p-bad", 0, "crash"),
        *[(p, turn, "ok") for turn in (1, 2) for p in ("p-good", "p-other")],
    ]
    assert (found["processes"], found["why"], len(scripted)) == (2, "", 3)
    found = _fresh.serve(plans[:1], processes=3, **(GIVEN | {"seconds": 1e-9}))
    assert found["processes"] == 1
    assert found["why"] == "no time was left after 1 of 3 fresh processes"


def test_no_process_takes_its_turn_while_another_one_still_opens_its_device(scripted):
    """The first once timed while the others started."""
    found = _fresh.serve(some("p-good"), processes=4, **GIVEN)
    assert [json.loads(r["detail"])["opened"] for r in found["results"]] == [4] * 4


# ---- started ahead ----------------------------------------------------------------------------------------------


def test_processes_that_wait_serve_and_no_others_are_started(scripted):
    with _fresh.Ahead(3, 1) as ahead:
        with ahead.settled():
            assert len(scripted) == 3
        with ahead.settled():  # of the next card
            assert len(scripted) == 3
        waited = [c._process.pid for c in scripted]
        assert pids(_fresh.serve(some("p-good"), processes=3, ahead=ahead, **GIVEN)) == waited
        assert len(scripted) == 3
        again = _fresh.serve(some("p-good"), processes=1, ahead=ahead, **GIVEN)  # they have served
        assert pids(again) == [c._process.pid for c in scripted[3:]]


def test_a_process_that_waits_with_other_threads_or_has_ended_is_replaced(scripted):
    with _fresh.Ahead(2, 2) as ahead:
        with ahead.settled():
            pass
        found = _fresh.serve(some("p-good"), processes=2, ahead=ahead, **GIVEN)  # its plan wants one thread
        assert found["processes"] == 2
        assert not set(pids(found)) & {c._process.pid for c in scripted[:2]}
    with _fresh.Ahead(2, 1) as ahead:
        with ahead.settled():
            pass
        first, second = scripted[-2:]
        first._process.kill()
        first._process.wait()
        found = _fresh.serve(some("p-good"), processes=2, ahead=ahead, **GIVEN)
        assert (found["processes"], found["why"]) == (2, "")
        assert pids(found) == [second._process.pid, scripted[-1]._process.pid]


def test_what_waits_ends_with_its_owner_and_where_it_is_not_wanted_nothing_starts(scripted):
    with _fresh.Ahead(2, 1) as ahead, ahead.settled():
        pass
    assert [c.ended() for c in scripted] == [True, True]
    with _fresh.Ahead(0, 1) as ahead, ahead.settled():
        pass
    assert len(scripted) == 2


@pytest.mark.parametrize("end", [KeyboardInterrupt, Terminated])
def test_who_is_interrupted_does_not_wait_for_them_to_start(monkeypatch, end):
    started: list[_fresh.Child] = []
    monkeypatch.setattr(
        _fresh,
        "_start",
        lambda threads: (
            started.append(_fresh.Child(["-S", "-c", "import time; time.sleep(600)"], {})) or started[-1]
        ),
    )
    with pytest.raises(end), _fresh.Ahead(2, 1) as ahead, ahead.settled(silence=3.0):
        raise end
    assert [c._late.is_set() for c in started] == [
        False,
        False,
    ]  # nobody waited until they were killed for their silence
    assert [c.ended() for c in started] == [True, True]
    with pytest.raises(ValueError), _fresh.Ahead(1, 1) as ahead, ahead.settled(silence=0.2):
        raise ValueError  # a card that cannot be prepared: the next one is, and nothing may be timed beside their start
    assert started[-1]._late.is_set()


def test_a_referee_has_real_ones_wait_from_when_it_expects_winners_until_it_is_left(tmp_path, monkeypatch):
    started: list[_fresh.Child] = []
    start = _fresh._start
    monkeypatch.setattr(_fresh, "_start", lambda threads: started.append(start(threads)) or started[-1])
    prepare = {"kind": "prepare", "card": "c-1", "seed": 3}
    with Referee(relu_card(64, 1000), fresh=2) as referee:
        assert started == []
        referee.expect()
        assert len(started) == 2
        referee.expect()
        referee.execute(prepare)
        referee.execute(prepare)
        assert [c.ended() for c in started] == [False, False]
        # It has torch, but was told nothing and has opened nothing.
        assert "libtorch_cpu" in Path(f"/proc/{started[0]._process.pid}/maps").read_text()
        assert not [f for f in os.listdir(f"/proc/{started[0]._process.pid}/fd") if _is_device(started[0], f)]
        task = {"kind": "confirm_fresh", "plans": [plan_of(tmp_path / "p", packs.RIGHT)], "processes": 1}
        task["plans"][0]["plan"]["threads"] = torch.get_num_threads()
        found = referee.execute(task | {"blocks": 4, "seed": 3, "seconds": 0.0})
        assert (found["processes"], [r["status"] for r in found["results"]]) == (1, ["ok"])
    assert [c.ended() for c in started] == [True, True]


def _is_device(child: _fresh.Child, fd: str) -> bool:
    return "nvidia" in os.readlink(f"/proc/{child._process.pid}/fd/{fd}")


def test_a_rehearsal_takes_the_smallest_call_of_each_operator(tmp_path, monkeypatch):
    item = plan_of(tmp_path / "p", packs.RIGHT)

    def sized(rows: int, overload: str) -> dict[str, Any]:
        plan = json.loads(json.dumps(item["plan"]).replace("64", str(rows)))
        plan["call"]["overload"] = overload
        return {**item, "plan": plan}

    seen: list[tuple[str, list[int]]] = []
    calls_of = ruler.calls_of

    def watched(place, name, sets, pool=None):
        seen.append((name, list(sets[0][0].shape)))
        return calls_of(place, name, sets, pool)

    monkeypatch.setattr(ruler, "calls_of", watched)
    overloads = ("aten::relu", "aten::none", "aten::sigmoid")  # what cannot be called is told in the turn
    with torch.no_grad():
        _fresh.rehearse([sized(n, o) for o in overloads for n in (64, 8, 16)], HOST)
    assert seen == [("aten::relu", [8, 1000]), ("aten::sigmoid", [8, 1000])]


@pytest.mark.parametrize(
    ("place", "attend", "processes", "ahead"),
    [(Place(0), False, 3, 3), (Place(0), False, 0, 0), (Place(0), True, 3, 0), (HOST, False, 3, 0)],
)
def test_they_start_ahead_where_a_search_on_a_device_will_want_them(place, attend, processes, ahead):
    job = Job.__new__(Job)
    job.profile, job.forward, job.model, job.inputs = relu_card(64, 1000), None, None, None
    job.place, job.asked = place, SimpleNamespace(seed=0, attend=attend, processes=processes)
    assert job.referee()._ahead._processes == ahead


@pytest.mark.parametrize("candidates", [0, 4])
def test_a_search_expects_winners_where_its_forecast_has_candidates(monkeypatch, candidates):
    expected: list[bool] = []
    referee = SimpleNamespace(execute=None, expect=lambda: expected.append(True))
    job = Job.__new__(Job)
    job.study, job.bar, job.callers = "s", None, SimpleNamespace(beside=lambda execute: execute)
    job.asked = SimpleNamespace(fresh=False)
    monkeypatch.setattr(job, "request", dict)
    monkeypatch.setattr(job, "referee", lambda: contextlib.nullcontext(referee))
    monkeypatch.setattr(job, "account", lambda outcome, begin: None)
    monkeypatch.setattr(_search, "opened", lambda *_, **__: contextlib.nullcontext())
    forecast = {"kind": "forecast", "data": {"candidates": candidates, "authors": None}}

    def drive(study, execute, bar, watch, again):
        for event in ({"kind": "run", "data": {"state": "started"}}, forecast):
            watch(event)

    monkeypatch.setattr(_search, "drive", drive)
    job._drive()
    assert expected == [True] * (candidates > 0)
