"""The judge on trial: a sample of the corpus of the host, what each gate alone kills, and the run over the corpus itself."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelforge import cli
from kernelforge.cli import redteam
from kernelforge.errors import UsageFault
from kernelforge.redteam import run as corpus
from kernelforge.redteam.calls import CALLS
from small_net import PACKAGE

SEED, SAMPLE = int(os.environ.get("KF_SEED", "37803")), 16


@pytest.fixture(scope="module")
def files():
    return corpus.files("host")


def _names(found, *lists):
    return {what: found[what] for what in lists if found[what]}


def test_every_call_of_the_corpus_is_in_the_table(files):
    for f in [*files, *corpus.files("cuda")]:
        assert f["call"] in CALLS, f["name"]


def test_the_corpus_has_every_gate_that_a_host_has(files):
    gates = {f["gate"] for f in files if not f["good"]}
    assert gates == ALONE | {"compile", "launch", "deadline"}


def test_a_pattern_means_names_kinds_calls_and_gates(files):
    for only in ("host/bad/noop_add.cc", "noop", "add_fp32_odd", "deadline", "bad/tail_*"):
        assert corpus.chosen(files, only), only
    with pytest.raises(UsageFault, match="no file fits"):
        corpus.chosen(files, "nothing_like_this")
    parts = [corpus.chosen(files, part=(k, 7)) for k in range(1, 8)]
    assert sorted(f["name"] for p in parts for f in p) == sorted(f["name"] for f in files)
    calls = [{f["call"] for f in p} for p in parts]
    assert sum(map(len, calls)) <= len(set().union(*calls)) + 6  # a call is opened in one part, or in two
    drawn = corpus.chosen(files, "", 20, 3)
    assert len(drawn) == 20 and drawn == corpus.chosen(files, "", 20, 3) != corpus.chosen(files, "", 20, 4)


def test_a_summary_counts_by_kind():
    def result(name, good, right, meant=True, kind="noop"):
        return {"name": name, "good": good, "right": right, "meant": meant, "kind": kind}

    found = corpus.summary(
        [
            result("a", False, True),
            result("b", False, True, meant=False),
            result("c", False, False, meant=False),
            result("d", False, True, kind="hang"),
            result("e", True, True),
            result("f", True, False),
        ]
    )
    assert found == {
        "bad": 4,
        "killed": 3,
        "survived": ["c"],
        "good": 2,
        "false_rejects": ["f"],
        "elsewhere": ["b"],
        "by_kind": {"hang": {"bad": 1, "killed": 1}, "noop": {"bad": 3, "killed": 2}},
    }


def test_a_sample_of_the_corpus_ends_as_it_must(tmp_path):
    found = corpus.redteam("host", sample=SAMPLE, seed=SEED, progress=False)
    assert not _names(found, "survived", "false_rejects", "elsewhere", "left"), f"KF_SEED={SEED}"
    assert found["killed"] == found["bad"] > 0 and found["good"] > 0, f"KF_SEED={SEED}"


def test_runs_side_by_side_keep_each_others_results(tmp_path):
    path = tmp_path / "results.json"
    for name in ("a", "b"):
        corpus._save(path, "judge", {name: {"name": name}})
    assert set(corpus._load(path, "judge")) == {"a", "b"}
    assert corpus._load(path, "another judge") == {}
    corpus._save(path, "another judge", {"c": {"name": "c"}})
    assert set(corpus._load(path, "another judge")) == {"c"} and not corpus._load(path, "judge")


def test_a_run_goes_on_where_its_budget_ended(capsys, home):
    arguments = ["redteam", "--json", "--only", "spec_*"]
    assert cli.main([*arguments, "--budget-s", "0.01"]) == 6
    first = json.loads(capsys.readouterr().out)
    assert len(first["files"]) == 1 and first["left"]
    assert cli.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["left"] and found["bad"] == found["killed"] == len(first["left"]) + 1
    assert found["files"][0] == first["files"][0]  # not judged again


# docs/security.md says of the others why nothing is killed by them alone, or why they cannot be switched off.
ALONE = {
    *("policy", "image", "poison", "guard_pages", "inputs", "values", "special", "exact", "exhaustive"),
    *("cap", "metamorphic", "repeats", "dirty", "fresh", "floor", "timing"),
}
# The check of an image is in whatever loads it, this process too, where a test cannot take it back.
HELD = {"image"}


@pytest.fixture(scope="module")
def alone(files):
    """By gate what only it kills: a file of each, all of them with KF_REDTEAM=all."""
    found = {}
    for f in files:
        if f.get("only"):
            found.setdefault(f["gate"], []).append(f["name"])
    return {
        gate: names if os.environ.get("KF_REDTEAM") == "all" else names[:1] for gate, names in found.items()
    }


def _judged(names, off):
    with pytest.MonkeyPatch.context() as m:
        m.setattr(corpus, "chosen", lambda all_files, *_: [f for f in all_files if f["name"] in names])
        return corpus.redteam("host", off=off, progress=False)


def _judged_afresh(names, off):
    """In a process of its own: what a plan that is confirmed finds in outputs and workspaces is what this one left there, poison and NaNs, and a file would die of that without its gate."""
    code = f"import json, test_redteam; print(json.dumps(test_redteam._judged({names!r}, {off!r})))"
    path = os.pathsep.join([str(PACKAGE.parent), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=540,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def judged():
    return lambda names, off=(): (_judged_afresh if {"poison", "dirty"} & set(off) else _judged)(names, off)


def test_each_gate_has_a_file_that_only_it_kills(alone):
    assert set(alone) == ALONE


def test_with_every_gate_on_each_kills_its_own(alone, judged):
    names = [name for mine in alone.values() for name in mine]
    found = judged(names)
    told = [(r["name"], r["status"], r["killed_by"], r["detail"]) for r in found["files"] if not r["meant"]]
    assert found["killed"] == found["bad"] == len(names) and not told, told


@pytest.mark.parametrize("gate", sorted(ALONE - HELD))
def test_a_gate_that_is_off_lets_its_files_live(gate, alone, judged):
    left, told = set(alone[gate]), []
    for _ in range(
        3
    ):  # without its gate a file may still die by chance, as of a NaN that lies in memory nobody poisoned
        found = judged(sorted(left), off=[gate])
        left -= set(found["survived"])
        told += [(r["name"], r["status"], r["killed_by"], r["detail"]) for r in found["files"]]
        if not left:
            return
    pytest.fail(f"never survived: {sorted(left)}: {told}")


def test_processes_side_by_side_judge_parts_and_a_host_has_none(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("KERNELFORGE_HOME", str(tmp_path))
    arguments = ["redteam", "--json", "--only", "spec_*"]
    assert cli.main([*arguments, "--jobs", "2"]) == 2
    capsys.readouterr()
    for part in ("1/2", "2/2"):  # as processes of --jobs do, one after the other
        done = subprocess.run(
            [sys.executable, "-m", "kernelforge", *arguments, "--part", part],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert cli.main([*arguments, "--budget-s", "0.01"]) == 0  # nothing is left
    assert json.loads(capsys.readouterr().out)["left"] == []
    monkeypatch.setattr(redteam, "_parts", lambda args: [])  # processes that end before they judge anything
    assert cli.main([*arguments, "--fresh", "--jobs", "2", "--budget-s", "0.001"]) == 6
    assert json.loads(capsys.readouterr().out)["left"]  # what was saved before is not what they have judged


def test_processes_side_by_side_are_told_of_a_ctrl_c_once_and_end_their_work(tmp_path):
    """Each says when it is there, and ends what it has begun, which takes a moment; the last hears nothing and is killed."""
    told = """
import pathlib, signal, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
pathlib.Path(sys.argv[1] + ".there").touch()
while not heard:
    time.sleep(0.01)
time.sleep(0.5)
pathlib.Path(sys.argv[1]).write_text(str(len(heard)))
"""
    deaf = "import pathlib, signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); pathlib.Path(sys.argv[1] + '.there').touch(); time.sleep(600)"
    caller = f"""
import signal, sys
from kernelforge.cli import redteam
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
redteam._END_S = 2
redteam._side_by_side([[sys.executable, "-c", code, f"{tmp_path}/{{i}}"] for i, code in enumerate({[told, told, deaf]!r})])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", caller], process_group=0, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("*.there"))) < 3:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["1", "1"]


def test_what_is_forgotten_is_judged_anew_and_the_rest_is_kept(tmp_path):
    saved, judge = tmp_path / "results.json", corpus.identity()
    corpus._save(saved, judge, {n: {"name": n} for n in ("a", "b", "c")})
    corpus.forget(saved, ["a", "c", "never judged"])
    assert set(corpus._load(saved, judge)) == {"b"}
