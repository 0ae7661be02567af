"""Live searches that are hurt: a sample of bench/faults.py, a few kills of bench/kills.py, a few interrupts of bench/interrupts.py (`make evidence` runs all).

The seed is fixed; KF_SEED draws another sample, at other moments.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from small_net import PACKAGE

pytestmark = pytest.mark.timeout(1000)  # of searches that are hurt on a busy machine
BENCH = Path(__file__).resolve().parents[3] / "bench"
SEED = os.environ.get("KF_SEED", "103")  # eight faults of all kinds


def _run(program, *options):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(BENCH / program), "--seed", SEED, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env)
    assert done.stdout, f"KF_SEED={SEED}: {done.stderr}"
    return json.loads(done.stdout)


def _all_contained(found, count):
    broken = [f"{r['name']}: {r['saw']}" for r in found["rows"] if r["contained"] is False]
    assert broken == [], f"KF_SEED={SEED}"
    assert found["faults"] == found["contained"] == count - len(found["not_injected"]), f"KF_SEED={SEED}"
    assert len(found["rows"]) == count
    assert found["recover_s_max"] is None or found["recover_s_max"] >= 0


def test_candidates_with_faults_for_devices_compile(monkeypatch):
    """One that does not compile would be contained by accident."""
    monkeypatch.syspath_prepend(BENCH)
    import injected

    import nvrtc

    prelude = (BENCH.parent / "go/cuda/prelude/kf_kernel.cuh").read_text()
    sources = {fault.name: fault.source for fault in injected.CUDA}
    sources["good"] = injected.good("cuda", 1)["source"]
    for name, source in sources.items():
        options = ["-default-device", "-std=c++17"]
        text = '#include "kf_kernel.cuh"\n' + source
        assert nvrtc.compile(text, "sm_90a", options, {"kf_kernel.cuh": prelude}), name


def test_faults_are_contained():
    _all_contained(_run("faults.py", "--sample", "8"), 8)


def test_killed_searches_lose_no_node_and_judge_none_twice(tmp_path):
    found = _run("kills.py", "--kinds", "live", "--points", "6", "--out", str(tmp_path / "kills.json"))
    assert found["wrong"] == [], f"KF_SEED={SEED}"
    assert found["points"] == {"replay": 0, "live": 6}
    assert found["nodes"] >= 8 * found["studies"] > 0


def test_interrupted_calls_end_as_documented_and_go_on(tmp_path):
    options = ["--moments", "1", "--signals", "SIGINT", "SIGTERM", "--out", str(tmp_path / "interrupts.json")]
    found = _run("interrupts.py", *options)
    assert found["wrong"] == [], f"KF_SEED={SEED}"
    assert found["moments"] == {"SIGINT": 1, "SIGTERM": 1, "SIGKILL": 0}


def test_faults_side_by_side_are_each_told_once_and_go_on_where_they_were_cut_off(tmp_path):
    names, kept = ["trap", "worker_killed", "huge_grid"], str(tmp_path / "faults.json")
    options = ("--jobs", "2", "--out", kept, "--only", *names)
    late = _run("faults.py", "--budget-s", "0", *options)
    assert late["left"] == names and late["rows"] == []
    found = _run("faults.py", *options)
    _all_contained(found, 3)
    assert "left" not in found
    assert sorted(r["name"] for r in found["rows"]) == sorted(names)
    assert _run("faults.py", *options)["rows"] == found["rows"], "no fault is injected again"


def test_a_fault_that_only_others_make_worse_is_not_contained(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCH)
    import random

    import faults
    import faults_candidates
    from faults_row import Row, Trials

    def inject_all(trials, names):
        return [Row(n, n == "first" or len(names) == 1, None, "saw") for n in names]

    monkeypatch.setattr(faults_candidates, "inject_all", inject_all)
    monkeypatch.setattr(
        faults, "listed", lambda target: dict.fromkeys(("first", "second"), faults_candidates.inject)
    )
    monkeypatch.setitem(faults._ours, "trials", Trials("host", tmp_path, random.Random(0)))
    monkeypatch.setitem(faults._ours, "seed", 0)
    found = {row.name: row for row in faults._strike(["first", "second"], time.monotonic() + 60)}
    assert found["first"].contained and not found["second"].contained
    assert "contained alone, but not after others" in found["second"].saw
    assert [row.contained for row in faults._strike(["second"], time.monotonic() + 60)] == [True]
