"""bench/counters.py: what ncu prints becomes counters of rows; an ncu that plays it stands in for the device."""

import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest

from kernelforge import _needs
from lives import lives

BENCH = Path(__file__).resolve().parents[3] / "bench"

PAGE = """==PROF== Connected to process 7 (/usr/bin/python3)
"ID","Process ID","Kernel Name","Grid Size","dram__bytes_read.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","launch__registers_per_thread"
"","","","","byte","%","register/thread"
"0","7","kf_moments(const uint4 *, Moments *)","(1024, 1, 1)","16,777,216","71.50","40"
"1","7","void at::native::copy(int)","(8, 1, 1)","12","1.0","16"
"2","7","kf_main","(1024, 1, 1)","4096","n/a","32"
"""


@pytest.fixture
def counters(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("bench_counters", BENCH / "counters.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_becomes_counters_of_our_kernels(counters):
    assert counters.parse(PAGE) == [
        {"kernel": "kf_moments", "read_bytes": 16777216.0, "dram_pct": 71.5, "registers": 40.0},
        {"kernel": "kf_main", "read_bytes": 4096.0, "registers": 32.0},
    ]
    with pytest.raises(ValueError, match="ERR_NVGPUCTRPERM"):
        counters.parse("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\nmore\n")
    with pytest.raises(ValueError, match="nothing"):
        counters.parse("")


def row(case, served=True):
    return {"case": case, "served": served, "search": {"pack": f"packs/{case}"}, "low": 1.5, "op": "aten::x"}


def test_rows_of_missed_goals_come_first_and_the_file_is_kept(counters, tmp_path, monkeypatch, capsys):
    data = {
        "rows": [row("met"), row("not served", served=False), row("elsewhere"), row("missed")],
        "summary": {
            "goals": [{"met": True, "cases": ["met"]}, {"met": False, "cases": ["missed"]}, {"met": False}]
        },
    }
    out = tmp_path / "ops-x.json"
    out.write_text(json.dumps(data))
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/asked\ncat <<'END'\n{PAGE}END\n")
    ncu.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{sys.exec_prefix}/bin:/usr/bin:/bin")
    for case in ("met", "missed"):
        (tmp_path / "home/packs" / case).mkdir(parents=True)
    given = ["--commit", "abc", "--out", str(out), "--home", str(tmp_path / "home")]
    assert counters.main(given) == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split("--child ")[1].split()[0] for line in asked] == ["missed", "met"]
    assert all(f"--pack {tmp_path}/home/packs/" in line and "--clock-control none" in line for line in asked)
    found = {r["case"]: r for r in json.loads(out.read_text())["rows"]}
    assert found["missed"]["counters"][0]["dram_pct"] == 71.5 and "counters" not in found["not served"]
    assert found["missed"]["counters_commit"] == "abc" and "counters" not in found["elsewhere"]
    assert "kf_moments: memory 72 % of the peak, 40 registers" in capsys.readouterr().out
    assert (
        counters.main(given) == 0 and len((tmp_path / "asked").read_text().splitlines()) == 2
    )  # they are kept
    ncu.write_text("#!/bin/sh\necho '==ERROR== no counters for this user'\nexit 1\n")
    assert counters.main([*given, "--again", "--only", "met"]) == 0
    found = {r["case"]: r for r in json.loads(out.read_text())["rows"]}
    assert found["met"]["counters"] == [] and "no counters for this user" in found["met"]["counters_why"]
    assert found["missed"]["counters"], "another row's went"


def test_a_row_that_has_no_time_is_left_and_what_it_started_ends(counters, tmp_path, monkeypatch):
    out, ncu, there = tmp_path / "ops-x.json", tmp_path / "ncu", tmp_path / "there"
    out.write_text(json.dumps({"rows": [row("slow")], "summary": {"goals": []}}))
    (tmp_path / "home/packs/slow").mkdir(parents=True)
    ncu.write_text(f"#!/bin/sh\nsleep 1000 & echo $! > {there}; wait\n")
    ncu.chmod(0o700)
    monkeypatch.setattr(_needs, "of_toolkit", lambda program: str(ncu))
    began = time.monotonic()
    given = ["--out", str(out), "--home", str(tmp_path / "home"), "--budget-s", "2"]
    assert counters.main(given) == 6 and time.monotonic() - began < 20
    assert "counters" not in json.loads(out.read_text())["rows"][0], "the next run would pass it over"
    while lives(there.read_text().strip()):
        assert time.monotonic() - began < 30
        time.sleep(0.05)


def test_without_packs_it_says_what_to_bring(counters, tmp_path, monkeypatch, capsys):
    out = tmp_path / "ops-x.json"
    out.write_text(json.dumps({"rows": [row("a")], "summary": {"goals": []}}))
    monkeypatch.setattr(_needs, "of_toolkit", lambda program: "/bin/false")
    assert counters.main(["--out", str(out), "--home", str(tmp_path)]) == 5
    assert "hint: bring that folder" in capsys.readouterr().err
    assert "counters" not in json.loads(out.read_text())["rows"][0]


def test_without_ncu_or_rows_it_says_what_to_do(counters, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_needs, "of_toolkit", lambda program: None)
    assert counters.main(["--out", str(tmp_path / "ops-x.json"), "--home", str(tmp_path)]) == 5
    assert "hint: install" in capsys.readouterr().err
    monkeypatch.setattr(_needs, "of_toolkit", lambda program: "/bin/false")
    assert counters.main(["--out", str(tmp_path / "ops-x.json"), "--home", str(tmp_path)]) == 5
    assert "has no rows" in capsys.readouterr().err


def test_the_readme_says_what_limits_a_missed_goal(counters, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import readme

    kernels = [
        {"kernel": "kf_main", "dram_pct": 61.6, "issue_pct": 44.0, "warps_pct": 25.0, "registers": 79.0}
    ]
    data = {"rows": [row("a") | {"counters": kernels}]}
    words = ": kf_main: memory 62 %, issue slots 44 %, warps 25 % of the peak, 79 registers"
    assert readme.limits({"cases": ["a"], "of": 1}, data) == words
    assert readme.limits({"of": 151}, data) == "" and readme.limits({"cases": ["b"], "of": 1}, data) == ""
