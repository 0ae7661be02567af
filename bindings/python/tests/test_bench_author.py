"""bench/author.py on the host, at small sizes: an agent's kernels go through ask and tell, a failure is answered, and a second run goes on from the file."""

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import author  # noqa: E402
import author_cards  # noqa: E402


@pytest.fixture
def run(tmp_path, monkeypatch, clean, surely_faster):
    """Run the bench with more options; give its exit code and file."""
    monkeypatch.setenv("KERNELFORGE_HOME", str(tmp_path / "home"))  # put back afterwards: the bench sets it

    def run(*options):
        argv = [
            "author.py",
            "--device",
            "cpu",
            "--small",
            "--templates",
            "1",
            "--processes",
            "0",
            "--blocks",
            "6",
        ]
        argv += [
            "--only",
            "linear",
            "--commit",
            "abc",
            "--out",
            str(tmp_path / "author.json"),
            "--home",
            str(tmp_path / "home"),
        ]
        monkeypatch.setattr(sys, "argv", [*argv, *options])
        return author.main(), json.loads((tmp_path / "author.json").read_text())

    return run


def test_an_agents_kernels_are_judged_answered_and_compared_and_nothing_twice(run):
    code, result = run("--budget-s", "0")
    assert code == author.UNFINISHED and result["left"] == ["linear"]
    code, result = run("--budget-s", "500")
    assert code == 0 and result["confirmed"] and "left" not in result
    linear = next(r for r in result["rows"] if r["card"] == "linear")
    ends = {a["name"]: (a["status"], a["parent"], a["answers"]) for a in linear["attempts"]}
    plain = "01_plain_loops"
    assert ends == {
        plain: ("ok", None, None),
        "02_bias_left_to_others": ("wrong_value", plain, None),
        "03_sums_begin_with_the_bias": ("ok", plain, "02_bias_left_to_others"),
    }
    assert linear["verdicts"] == {"ok": 2, "wrong_value at values": 1} and linear["candidates"] == 3
    assert linear["best_authored"] in (plain, "03_sums_begin_with_the_bias")
    assert (
        linear["against_eager"]["low"] <= linear["against_eager"]["ratio"] <= linear["against_eager"]["high"]
    )
    assert linear["against_template"] is None and "no template" in linear["why"]["against_template"]
    assert linear["tokens_in"] is None and linear["why"]["tokens"]
    assert result["summary"]["answers_to_failures"] == 1
    nodes = [a["node"] for a in linear["attempts"]]
    code, again = run("--budget-s", "500")
    assert code == 0 and [a["node"] for a in again["rows"][0]["attempts"]] == nodes
    assert again["rows"][0]["made"] == result["rows"][0]["made"], "something was judged or timed again"


def test_an_answer_is_told_only_to_a_failure():
    answers = [a for a in author_cards.attempts("host", "linear") if a.answers]
    row = {"card": "linear", "attempts": [{"name": a.answers, "status": "ok"} for a in answers]}
    untold = author.Author.untold(type("Run", (), {"target": "host"})(), row)
    assert answers and not {a.name for a in answers} & {a.name for a in untold}


def test_cards_are_counted_by_the_lower_bounds_of_their_ratios():
    def row(low, status="ok", gate=None):
        attempts = [{"status": status, "gate": gate, "answers": None}]
        found = {"attempts": attempts, "templates": [], "seconds": 1.0}
        return found | {"against_template": {"ratio": 1.2, "low": low, "high": 1.3}, "against_eager": None}

    found = author.summary([row(1.06), row(1.01), row(0.99, "wrong_value", "special")])
    assert found["faster_than_template"] == 2 and found["faster_than_template_by_5_percent"] == 1
    assert found["faster_than_eager"] == 0
    assert found["verdicts"] == {"ok": 2, "wrong_value at special": 1}
