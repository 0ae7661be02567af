"""bench/trust.py: what it takes of a program's output, what it calls wrong, and that a missing program is told, not made up."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lives import lives

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(scope="module")
def trust():
    sys.path.insert(0, str(BENCH))
    try:
        import trust

        return trust
    finally:
        sys.path.remove(str(BENCH))


def test_the_answer_of_a_program_is_its_last_object(trust):
    assert trust.last_object('{"a": 1}') == {"a": 1}
    assert trust.last_object('talk\n{"a": 1}\n{"a": 2}\n') == {"a": 2}
    assert trust.last_object("[1]\ntalk") is None


def test_what_is_not_as_it_has_to_be_is_told(trust):
    fine = {
        "survived": [],
        "false_rejects": [],
        "wrong": 0,
        "crashes": 0,
        "faults": 30,
        "contained": 30,
        "recover_s_max": 1.2,
        "aa_trials": 1000,
        "aa_accepted": 5,
    }
    assert trust.verdict(fine) == [] == trust.verdict(dict.fromkeys(fine))
    for change in (
        {"survived": ["x"]},
        {"false_rejects": ["x"]},
        {"wrong": 1},
        {"crashes": 1},
        {"contained": 29},
        {"recover_s_max": 2.5},
        {"aa_accepted": 6},
    ):
        assert len(trust.verdict(fine | change)) == 1, change


def test_a_program_that_fails_leaves_its_fields_null_and_says_why(trust, monkeypatch, tmp_path):
    for text, why in (("print('talk')", "no JSON"), ("print('{}')", "no aa_trials, aa_accepted")):
        section = trust.Section(
            lambda *_, text=text: [sys.executable, "-c", text], 0.1, ("aa_trials", "aa_accepted")
        )
        monkeypatch.setitem(trust.SECTIONS, "aa", section)
        fields, how = trust.measure("aa", "host", 30.0, tmp_path / "trust-host.json")
        assert fields == {"aa_trials": None, "aa_accepted": None}
        assert not how["done"] and why in how["why"]
    good = 'print(\'{"aa_trials": 3, "aa_accepted": 0}\')'
    monkeypatch.setitem(
        trust.SECTIONS,
        "aa",
        trust.Section(lambda *_: [sys.executable, "-c", good], 0.1, ("aa_trials", "aa_accepted")),
    )
    fields, how = trust.measure("aa", "host", 30.0, tmp_path / "trust-host.json")
    assert fields == {"aa_trials": 3, "aa_accepted": 0} and how["done"]


def test_what_a_section_has_started_ends_with_it(trust, tmp_path):
    told = tmp_path / "pid"
    child = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    program = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(300)"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        trust.programs.output([sys.executable, "-c", program], 3.0)
    pid = int(told.read_text())
    until = time.monotonic() + 10
    while lives(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not lives(pid)


def test_tiers_are_told_however_little_time_is_left(trust, monkeypatch, tmp_path):
    out = tmp_path / "trust-host.json"
    monkeypatch.setattr(
        sys, "argv", ["trust.py", "--only", "aa", "tiers", "--budget-s", "0", "--out", str(out)]
    )
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    trust.main()
    found = trust.load(out, trust.head())
    assert found["tiers"] and found["aa_trials"] is None
    assert found["sections"]["aa"]["why"] == "the budget ended first"


def test_results_of_another_commit_are_not_gone_on_with(trust, tmp_path):
    path = tmp_path / "trust.json"
    trust.save(path, {"commit": "a", "bad": 1})
    assert trust.load(path, "a") == {"commit": "a", "bad": 1}
    assert trust.load(path, "b") == {} == trust.load(tmp_path / "none.json", "a")
