"""bench/lanes.py: parts of a bench side by side, their end in time, and the lock of the file that they share."""

import sys
import time
from pathlib import Path

import pytest

from lives import lives

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import cost_tables  # noqa: E402
import lanes  # noqa: E402


def test_every_part_runs_in_its_share_of_the_time_and_who_fails_is_told(tmp_path):
    def command(part, seconds):
        return ["-c", f"open({str(tmp_path / part)!r}, 'w').write('{seconds}'); exit({part == 'c'} * 6)"]

    assert lanes.side_by_side(command, ["a", "b", "c", "d", "e"], 2, 90.0) == ["c"]
    seconds = {p.name: float(p.read_text()) for p in tmp_path.iterdir()}
    assert sorted(seconds) == ["a", "b", "c", "d", "e"]
    # Five parts in two lanes are three rounds; the last one has all that is left.
    assert seconds["a"] <= 30 and seconds["b"] <= 45 and seconds["e"] > 60


def test_a_part_that_does_not_end_is_ended_with_what_it_started(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(lanes, "GRACE_S", 0.5)
    monkeypatch.setattr(lanes, "END_S", 0.5)
    there = tmp_path / "there"
    deaf = f"""
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
open({str(there)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(1000)
"""
    began = time.monotonic()
    assert lanes.side_by_side(lambda part, seconds: ["-c", deaf], ["deaf", "late"], 1, 2.0) == [
        "deaf",
        "late",
    ]
    assert time.monotonic() - began < 2.0 + 0.5 + 2 * 0.5 + 2.0
    assert "deaf: ended" in capfd.readouterr().err
    for pid in map(int, there.read_text().split()):
        while lives(pid):
            assert time.monotonic() - began < 20
            time.sleep(0.02)


def test_no_row_is_lost_where_several_processes_record_into_one_file(tmp_path):
    path, each = tmp_path / "cost-tables-x.json.gz", 40

    def command(part, seconds):
        return [
            "-c",
            f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(BENCH)!r})
import cost_tables
tables = cost_tables.Tables(Path({str(path)!r}), {{"schema": 1}})
for i in range({each}):
    tables.keep({part!r}, {{"id": f"k-{{i}}", "cost": 1.0}})
    if i % 10 == 9:
        tables.complete({{"name": {part!r}, "whole": False}}, [f"k-{{n}}" for n in range(i + 1)])
""",
        ]

    assert lanes.side_by_side(command, ["add", "relu", "sum"], 3, 120.0) == []
    tables = cost_tables.Tables(path, {"schema": 1})
    assert {c["name"]: len(c["rows"]) for c in tables.content["cards"]} == {
        "add": each,
        "relu": each,
        "sum": each,
    }
    assert not tables.journal.exists() and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_parts_command_has_all_that_its_card_needs(monkeypatch, tmp_path):
    words = ["--target", "cuda", "--lanes", "4", "--commit", "abc", "--most", "7", "--note", "two words"]
    monkeypatch.setattr(sys, "argv", ["cost_tables.py", *words, "--out", str(tmp_path / "t.json.gz")])
    asked = cost_tables.options()
    monkeypatch.setattr(sys, "argv", asked.part("sum of rows", 12.34))
    part = cost_tables.options()
    assert (part.only, part.budget_s, part.part_of, part.lanes) == (["sum of rows"], 12.3, 4, 1)
    assert all(getattr(part, k) == getattr(asked, k) for k in ("target", "commit", "most", "note", "out"))
    monkeypatch.setattr(sys, "argv", ["cost_tables.py", "--lanes", "2"])
    with pytest.raises(SystemExit):
        cost_tables.options()


def test_a_card_that_cannot_be_judged_keeps_none_of_the_others(monkeypatch, tmp_path, capsys):
    done = []

    def record(name, make, tables, arguments, until):
        done.append(name)
        if name == "a":
            raise RuntimeError("the worker did not start")
        return True

    monkeypatch.setattr(cost_tables, "record", record)
    asked = type("Asked", (), {"budget_s": 60.0})()
    left = cost_tables.recorded(["a", "b"], {"a": None, "b": None}, None, asked)
    assert (left, done) == (1, ["a", "b"]) and "a: the worker did not start" in capsys.readouterr().err
