"""Cost tables and the comparison on them: bench/cost_tables.py, bench/ablation.py. And the figures of bench/search.py."""

import argparse
import gzip
import json
import sys
import time
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import ablation  # noqa: E402
import cost_calls  # noqa: E402
import cost_tables  # noqa: E402
import search  # noqa: E402

PARAMS = [
    {"name": "VEC", "values": [1, 2, 4], "default": 2},
    {"name": "GRAIN", "values": [8, 64], "default": 64},
]
ABOUT = {"name": "relu", "whole": True}


def test_points_begin_with_the_default_and_are_all_of_the_space():
    found = cost_tables.points(PARAMS)
    assert found[0] == {"VEC": 2, "GRAIN": 64}
    changed = [sum(p[n] != v for n, v in found[0].items()) for p in found]
    assert changed == sorted(changed)
    assert len({tuple(p.items()) for p in found}) == 6
    assert found == cost_tables.points(PARAMS)


def test_a_table_that_was_killed_goes_on(tmp_path):
    path = tmp_path / "cost-tables-host.json.gz"
    rows = [{"id": f"k-{i}", "cost": 0.5 + i} for i in range(3)]
    first = cost_tables.Tables(path, {"schema": 1})
    first.keep("relu", rows[0])
    first.keep("relu", rows[1])
    journal = path.with_suffix(".rows")
    journal.write_text(journal.read_text()[:-9])  # killed in the middle of a line
    again = cost_tables.Tables(path, {"schema": 1})
    assert list(again.known("relu")) == ["k-0"]
    again.keep("relu", rows[1])
    again.keep("add", rows[2])
    again.complete(ABOUT, ["k-1", "k-0", "k-9"])
    assert [r["id"] for r in json.loads(gzip.decompress(path.read_bytes()))["cards"][0]["rows"]] == [
        "k-1",
        "k-0",
    ]
    third = cost_tables.Tables(path, {"schema": 1})
    assert set(third.known("relu")) == {"k-0", "k-1"}
    assert set(third.known("add")) == {"k-2"}  # of a card that is not in the file yet
    third.complete(ABOUT, ["k-1"])  # the template of the other has changed since
    assert set(cost_tables.Tables(path, {"schema": 1}).known("relu")) == {"k-1"}


def test_a_card_is_recorded_by_the_real_judge_and_taken_up_again(tmp_path, clean):
    options = argparse.Namespace(most=2, note="", commit=None)
    path = tmp_path / "cost-tables-host.json.gz"
    tables = cost_tables.Tables(path, {"schema": 1, "target": "host"})

    def make():
        return cost_calls.made("aten::relu", torch.relu, torch.randn(1 << 18))

    late = float("inf")
    assert cost_tables.record("relu", make, tables, options, late)
    card = json.loads(gzip.decompress(path.read_bytes()))["cards"][0]
    assert card["sampled"] and card["points"] > 2 and len(card["rows"]) == 2
    for row in card["rows"]:
        assert row["status"] == "ok", row
        assert row["cost"] > 0 and len(row["candidate_us"]) == 1 and row["family"] == "pointwise"
    known = cost_tables.Tables(path, {})
    assert cost_tables.record("relu", make, known, options, 0.0)  # no time, but nothing is missing
    options.most = 3
    assert not cost_tables.record("relu", make, known, options, 0.0)
    again = json.loads(gzip.decompress(path.read_bytes()))["cards"][0]
    assert not again["whole"] and again["rows"] == card["rows"]


def test_a_card_whose_time_ended_while_candidates_were_judged_is_not_whole(tmp_path, clean, monkeypatch):
    options = argparse.Namespace(most=8, note="", commit=None)
    tables = cost_tables.Tables(tmp_path / "cost-tables-host.json.gz", {"schema": 1, "target": "host"})

    def make():
        return cost_calls.made("aten::relu", torch.relu, torch.randn(1 << 18))

    judged = cost_tables.judged

    def soon(
        name, card, study, candidates, until, keep
    ):  # a few candidates' time, whatever the study took to begin
        return judged(name, card, study, candidates, time.monotonic() + 3.05, keep)

    monkeypatch.setattr(cost_tables, "judged", soon)
    whole = cost_tables.record("relu", make, tables, options, float("inf"))
    (card,) = tables.content["cards"]
    assert len(card["rows"]) < 8 and not whole and not card["whole"]


@pytest.fixture
def cards():
    """Two cards on which mcts finds 10 % more than every other policy, at any budget."""

    def curve(least):
        return [[least] * max(ablation.BUDGETS)] * 5

    return [
        {
            "card": name,
            "least": 0.5,
            "curves": {p: curve(0.5 if p == "mcts" else 0.55) for p in ablation.COLOURS},
        }
        for name in ("relu", "add")
    ]


def test_entries_have_the_fields_of_result_files(cards):
    rows = ablation.entries(cards)
    assert len(rows) == 2 * len(ablation.COLOURS) * len(ablation.BUDGETS)
    assert {"card", "policy", "budget", "seeds", "best_cost", "low", "high"} == set(rows[0])
    mcts = [r for r in rows if r["policy"] == "mcts"]
    assert all(r["low"] <= r["best_cost"] + 1e-12 and r["high"] >= r["best_cost"] - 1e-12 for r in rows)
    assert all(r["best_cost"] == pytest.approx(0.5) and r["seeds"] == 5 for r in mcts)


def test_summary_says_by_how_much_the_others_are_behind(cards):
    for row in ablation.summary(cards):
        if row["policy"] == "mcts":
            assert row["over_least"] == pytest.approx(1) and "over_mcts" not in row
        else:
            assert row["over_mcts"] == pytest.approx(1.1) and row["low"] == pytest.approx(1.1)


def test_plot_has_a_line_for_each_policy(cards):
    import xml.dom.minidom

    svg = xml.dom.minidom.parseString(ablation.plot(cards, "a title"))
    lines = [p for p in svg.getElementsByTagName("path") if p.getAttribute("fill") == "none"]
    assert len(lines) == len(ablation.COLOURS)


def test_a_search_of_hardly_any_candidate_has_figures():
    assert search.quantile([], 0.5) is None and search.quantile([], 0.95) is None
    assert search.quantile([0.3], 0.5) == search.quantile([0.3], 0.95) == 0.3
    many = [float(i) for i in range(1, 101)]
    assert search.quantile(many, 0.5) == 50.5 and 95 <= search.quantile(many, 0.95) <= 97


def test_steps_of_a_study_tell_where_their_seconds_went():
    spent = search.Spent()
    spent.add({"what": "judge", "seconds": 2.0, "parts": {"check": 1.5, "run": 0.25}})
    spent.add({"what": "judge", "seconds": 1.0, "parts": {"run": 0.5}})
    spent.add({"what": "judge", "seconds": 0.5})
    assert spent.row() == {"times": 3, "total_s": 3.5, "parts_s": {"check": 1.5, "run": 0.75}}
    assert "parts_s" not in search.Spent().row()
