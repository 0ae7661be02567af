"""bench/ops.py: its table of cases, how it goes on, and small runs of the real path on the host."""

import contextlib
import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import packs
from ops_rows import modules, result, row

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench"
# What the measurement before the project left out of `bytes that must move`: everything but the first input, or parameters.
LEFT_OUT = {
    "adaptive_avgpool1": "output",
    "mean dim1": "output",
    "topk8": "output",
    "rope": "others",
    "layernorm": "others",
    "rmsnorm": "others",
    "hf_rmsnorm": "others",
    "batchnorm": "others",
    "groupnorm32": "others",
    "add bias": "others",
}
OWN = """
import os, time
import torch
import ops_cases as c
from ops_cases import Case

def call(how):
    def made(x):
        if how == "crash" and not x.is_meta:
            os.abort()
        if how == "hang" and not x.is_meta:
            time.sleep(1e6)
        if how == "raise" and not x.is_meta:
            raise ValueError("this one raises")
        return torch.relu(x)
    return made

def cases():
    make = c._tensors("float32", (64, 1000))
    return [Case(f"{how} float32", "aten::relu", "float32", "contiguous", make, call(how), group="host")
            for how in ("one", "crash", "two", "hang", "raise")] + [
            Case("pool float32", "aten::max_pool2d", "float32", "NCHW", c._tensors("float32", (1, 16, 56, 56)), c.max_pool, group="host"),
            Case("in model: relu float32", "aten::relu", "float32", "contiguous", make, torch.relu, group="model",
                 between=(lambda x: x * 2, torch.neg))]
"""


@pytest.fixture
def bench(monkeypatch):
    return modules(monkeypatch)


def before():
    with (BENCH / "ops_first.csv").open() as f:
        return list(csv.DictReader(f))


# ---- the table ----------------------------------------------------------------------------------------------------------------------


def test_every_case_of_the_first_measurement_is_there_with_its_bytes(bench):
    """roof_us there = bytes / 4.3 TB/s, rounded to a nanosecond."""
    cases = {c.name: c for c in bench.cases.first()}
    rows = before()
    assert len(rows) == 114 and [r["case"] for r in rows] == list(cases)
    for line in rows:
        case = cases[line["case"]]
        size = case.bytes()
        out = LEFT_OUT.get(next((k for k in LEFT_OUT if line["case"].startswith(k)), ""))
        inputs = case.make("meta")
        if out == "others":
            size -= sum(x.numel() * x.element_size() for x in inputs[1:])
        elif out == "output":
            size = inputs[0].numel() * inputs[0].element_size()
        assert case.native == bool(int(line["native"])), case.name
        assert size / 4.3e6 == pytest.approx(float(line["roof_us"]), abs=6e-4), case.name


@pytest.mark.parametrize("target", ["cuda", "host"])
def test_cases_are_what_they_say(bench, target):
    for case in bench.cases.find(target).values():
        x = case.make("meta")[0]
        assert case.dtype == str(x.dtype).removeprefix("torch."), case.name
        if case.layout in ("NCHW", "channels_last"):
            last = x.is_contiguous(memory_format=torch.channels_last)
            assert last == (case.layout == "channels_last") or min(x.shape[1], x.shape[2]) == 1, case.name
        if case.between:  # the chain can be run without the call
            made = case.call(*case.make("meta"))
            assert made.shape == x.shape and made.stride() == x.stride(), case.name
            assert case.between[0](x).shape == x.shape, case.name
        assert case.bytes() > 0


def test_the_papers_ratios_stand_beside_its_operators(bench):
    cases = bench.cases.find("cuda")
    assert {c.paper for c in cases.values() if c.paper} == set(bench.cases.PAPER)
    assert cases["gemma4 softmax bfloat16"].paper_ratio == 2.83
    assert cases["softmax dim1 float32"].paper_ratio is None


@pytest.mark.parametrize("target", ["cuda", "host"])
def test_goals_are_about_cases_that_exist_and_come_first(bench, target):
    names = list(bench.cases.find(target))
    about = [n for g in bench.goals.goals(target) for n in g.cases]
    assert about and set(about) <= set(names)
    order = bench.goals.order(target, names)
    assert sorted(order) == sorted(names) and set(order[: len(set(about))]) == set(about)


# ---- resume -------------------------------------------------------------------------------------------------------------------------


def opened(bench, tmp_path, *words):
    args = ["--target", "host", "--out", str(tmp_path / "r.json"), "--home", str(tmp_path / "h")]
    return bench.ops.Bench(bench.ops.arguments([*args, "--commit", "abc", *words]))


def test_rows_that_are_done_stay_and_what_is_missing_comes_first(bench, tmp_path):
    names = opened(bench, tmp_path).left()
    first, second, third = names[:3]
    ways = list(bench.ops.WAYS)
    rows = [
        row(first, ways=ways),
        row(second, ways=["inductor"]),
        row(third, ways=ways, commit="old"),
        row(names[3], ways=ways, commit="old", eager_us=None),
    ]
    now = opened(bench, tmp_path)
    (tmp_path / "r.json").write_text(json.dumps(result(rows) | {"env": now.env}))
    assert opened(bench, tmp_path).left() == [*names[4:], second, names[3]]
    assert opened(bench, tmp_path, "--stale").left() == [*names[4:], second, third, names[3]]
    assert opened(bench, tmp_path, "--without", *bench.ops.WAYS[1:]).left() == [*names[4:], names[3]]
    assert opened(bench, tmp_path, "--only", first).left() == []
    assert opened(bench, tmp_path, "--fresh").left() == names
    (tmp_path / "r.json").write_text(json.dumps(result(rows)))
    assert opened(bench, tmp_path).left() == names, "rows of another machine"
    assert opened(bench, tmp_path, "--budget-s", "0").run() == len(names), "nothing is begun"


def test_a_step_that_ends_its_process_is_left_out_and_the_row_says_so(bench, tmp_path):
    begun = opened(bench, tmp_path, "--only", "transpose copy")
    (name,) = begun.left()
    asked = []

    class Child:
        def ask(self, seconds, **request):
            asked.append(request)
            if not any(w.startswith("autotune") for w in request["without"]):
                raise bench.ops.Ended("autotune", "no answer within 5 s")
            if len(asked) < 3:
                raise bench.ops.Ended("kernelforge", "the process ended with SIGSEGV")
            measured = {
                k: v
                for k, v in row(name).items()
                if k.endswith("_us") and k not in ("roof_us", "autotune_us")
            }
            return (
                measured
                | {"served": False, "low": 1.0, "against": {}, "search": {}}
                | {"why": request["without"]}
            )

        def end(self):
            asked.append("end")

    begun._child = lambda *at: Child()
    begun.result["copy_gbs"] = 10.0
    assert begun.run() == 0
    saved = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [r["case"] for r in saved] == [name] and saved[0]["eager_us"] == 10.0
    assert saved[0]["why"] == [
        "autotune=no answer within 5 s",
        "kernelforge=the process ended with SIGSEGV",
    ]
    assert saved[0]["roof_us"] == pytest.approx(2 * 4096 * 4096 * 4 / 10.0 / 1e3)
    assert asked[-1] == "end"


def test_a_row_under_way_long_after_the_budget_is_left_and_no_row_is_begun_that_would_be(bench, tmp_path):
    words = ("--only", "softmax", "--budget-s", "0.2", "--grace-s", "0.3")
    begun = opened(bench, tmp_path, *words)
    names, ended = begun.left(), threading.Event()

    class Child:
        def ask(self, seconds, **request):
            ended.wait(60)
            raise bench.ops.Ended("kernelforge", "the process ended with SIGKILL")

        def end(self):
            ended.set()

    def child(*at):
        begun._children.append(made := Child())
        return made

    begun._child, began = child, time.monotonic()
    assert begun.run() == len(names) and time.monotonic() - began < 10
    assert json.loads((tmp_path / "r.json").read_text())["rows"] == [], "its end was ours, and no finding"
    late = opened(bench, tmp_path, *words)
    late._took = [0.1, 0.6, 9.0]
    assert not late._goes_on()
    late._took = [0.1, 0.2, 9.0]
    assert late._goes_on()


def test_lanes_have_processors_of_their_own_and_the_host_has_one(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(7)))
    shares = [bench.ops.share(n, 3) for n in range(3)]
    assert sorted(c for s in shares for c in s) == list(range(7)) and min(map(len, shares)) == 2
    assert bench.ops.share(1, 9) == set(range(7))
    with pytest.raises(SystemExit):
        bench.ops.arguments(["--target", "host", "--lanes", "2"])


def test_no_sample_of_a_processor_begins_with_what_was_used_before_it(bench):
    """A call that takes longer than a sample found its only set in the cache: `cold` was warm."""
    import ops_time

    from kernelforge import _ext
    from kernelforge._place import HOST

    sets, used = [[torch.full((1 << 12,), float(i))] for i in range(7)], []

    def call(x):
        used.append(int(x[0]))
        time.sleep(0.0003)  # one call is a sample

    ways = [ops_time.Way(name, call) for name in ("eager", "kernelforge", "copy")]
    timed = ops_time.Bench(HOST, ways, sets, sets, 1)
    assert timed.inner == 1
    assert _ext.load().enabled(), (
        "plans serve what comes after it: rows that were measured again after the first were not served"
    )
    used.clear()
    timed.blocks(6)
    assert _ext.load().enabled()
    assert (
        len(used) == 2 * 3 * 7
    )  # of each way one call before the timed one, in each block and the round before
    assert all(b == (a + 1) % 7 for a, b in itertools.pairwise(used))


def test_a_bench_that_cannot_start_makes_no_rows(bench, tmp_path):
    begun = opened(bench, tmp_path)

    def never(*at):
        raise bench.ops.Ended("start", "the process ended with code 1: ImportError: no torch")

    begun._child = never
    with pytest.raises(bench.ops.Broken, match="no torch"):
        begun.run()
    assert json.loads((tmp_path / "r.json").read_text())["rows"] == []


def test_rows_of_another_machine_are_not_measured_again_here(bench, tmp_path, capsys):
    saved = json.dumps(result([row("a")]))
    (tmp_path / "r.json").write_text(saved)
    words = ["--target", "host", "--out", str(tmp_path / "r.json"), "--recheck"]
    assert bench.ops.main(words) == 5 and "A <GPU>" in capsys.readouterr().err
    assert (tmp_path / "r.json").read_text() == saved


# ---- the real path ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(bench, tmp_path, monkeypatch):
    """Run the bench on its own small cases, with one thread: a pool of threads waits at every barrier of a busy machine."""
    own = tmp_path / "own.py"
    own.write_text(OWN)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    files = ["--cases", own, "--out", tmp_path / "r.json", "--home", tmp_path / "h"]
    begin = ["--target", "host", *map(str, files), "--blocks", "6", "--times-s", "1"]

    def made(*words):
        assert bench.ops.main([*begin, *words]) == 0
        return {r["case"]: r for r in json.loads((tmp_path / "r.json").read_text())["rows"]}

    return made


FEW = ("--without", "inductor", "autotune", "tuned", "kernelforge")


def test_a_case_that_crashes_or_raises_is_a_row_and_the_others_go_on(run):
    rows = run(*FEW, "--only", "[!ph]*t*")
    names = ("one", "crash", "two", "raise", "in model: relu")
    assert list(rows) == [f"{n} float32" for n in names]
    assert "SIGABRT" in rows["crash float32"]["why"]["eager_us"]
    assert rows["crash float32"]["eager_us"] is None and rows["crash float32"]["bytes"] == 512000
    assert rows["raise float32"]["why"]["eager_us"] == "ValueError: this one raises"
    for name in ("one float32", "two float32"):
        r = rows[name]
        assert r["eager_us"] > 0 and r["copy_us"] > 0 and r["roof_us"] > 0, r
        assert (r["kernelforge_us"], r["ratio"], r["low"], r["served"]) == (r["eager_us"], 1.0, 1.0, False)
        assert r["inductor_us"] is None and r["why"]["inductor_us"] == "not measured: left out"
    model = rows["in model: relu float32"]
    assert model["eager_us"] or "lost in the noise" in model["why"]["eager_us"]


def test_a_case_that_hangs_is_ended(run):
    (r,) = run(*FEW, "--only", "hang", "--case-s", "2").values()
    # It says where it hangs: by the words of faulthandler, from the innermost frame on.
    assert "no answer within 2 s (in " in r["why"]["eager_us"] and r["eager_us"] is None


def test_a_child_ends_with_a_bench_that_is_killed(tmp_path):
    own, there = tmp_path / "own.py", tmp_path / "there"
    own.write_text(
        OWN.replace(
            "time.sleep(1e6)", f"open({str(there)!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(1e6)"
        )
    )
    files = ["--cases", own, "--out", tmp_path / "r.json", "--home", tmp_path / "h"]
    command = [sys.executable, BENCH / "ops.py", "--target", "host", *FEW, "--only", "hang", *files]
    process = subprocess.Popen([str(c) for c in command])
    until = time.monotonic() + 240
    while not (there.exists() and there.read_text().endswith(" ")):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    child, until = int(there.read_text()), time.monotonic() + 10
    try:
        with pytest.raises(ProcessLookupError):
            while time.monotonic() < until:
                os.kill(child, 0)
                time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_row_has_inductor_and_a_search_of_kernelforge(run):
    more = ("--candidates", "2", "--search-s", "20", "--compile-s", "400")
    (r,) = run(*more, "--without", "autotune", "--only", "pool").values()
    assert r["inductor_us"] > 0 and r["against"]["inductor"]["ratio"] > 0
    (operator,) = r["search"]["operators"]
    assert operator["op"] == "aten::max_pool2d" and sum(operator["verdicts"].values()) > 0
    assert r["served"] == (r["search"]["pack"] is not None) and r["served"] == bool(r["search"]["hits"])
    assert r["why"]["tuned_us"] and r["tuned_us"] is None


def test_served_rows_are_measured_again_from_their_packs(bench, run, tmp_path, clean, capsys):
    packs.write(tmp_path / "h/packs/one")
    packs.write(tmp_path / "h/packs/two", torch="1.0")
    rows = [row(f"{n} float32", search={"pack": f"packs/{n}"}, group="host", ways=[]) for n in ("one", "two")]
    rows.append(row("pool float32", eager=5.0))
    rows.append(
        row("crash float32", search={"pack": "packs/of-a-machine-that-is-gone"}, group="host", ways=[])
    )
    found = result(rows) | {"env": opened(bench, tmp_path).env}
    (tmp_path / "r.json").write_text(json.dumps(found))
    rows = run("--recheck")
    one, two = rows["one float32"], rows["two float32"]
    assert one["recheck_ratio"] > 0 and one["recheck_low"] <= one["recheck_ratio"] <= one["recheck_high"]
    assert one["recheck_eager_us"] > 0 and one["recheck_made"]
    assert two["recheck_ratio"] is None and two["recheck_why"]
    assert "recheck_made" not in rows["pool float32"], "it was not served"
    assert "recheck_made" not in rows["crash float32"], "its pack is not here"
    assert "packs of 1 served rows are not in" in capsys.readouterr().out
    assert (tmp_path / "r.svg").exists()


def test_a_result_tells_its_command_without_places_and_so_that_a_shell_takes_it(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    from resumed import said

    words = ["--out", "/tmp/a.json", "--home=/tmp/b", "--only", "softmax dim1*", "--commit=abc", "--lanes=3"]
    assert said("ops", words) == "python bench/ops.py --only 'softmax dim1*' --lanes=3"
    assert said("ops", []) == "python bench/ops.py"
