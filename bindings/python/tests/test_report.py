"""The report: its numbers, its honesty about eager, its three forms."""

import html.parser
import json

import pytest

from kernelforge._measure import from_pairs, median_interval
from kernelforge._outcome import _why_eager
from kernelforge._progress import Progress, span
from kernelforge._report import Report, rows_of

CARDS = [
    {"id": "c-1", "overload": "aten::max_pool2d_with_indices", "layout": "contiguous", "share": 0.4,
     "variants": [{"id": "v0", "calls": 2, "eager_us": 1000.0}, {"id": "v1", "calls": 1, "eager_us": 500.0}]},
    {"id": "c-2", "overload": "aten::mkldnn_convolution", "layout": "contiguous", "share": 0.6, "variants": [{"id": "v0", "calls": 9, "eager_us": 300.0}]},
]  # fmt: skip
PLANS = [
    {
        "card": "c-1",
        "variant": "v0",
        "evidence": {
            "ratio": 4.0,
            "low": 2.0,
            "high": 5.0,
            "samples": 20,
            "eager_us": 1000.0,
            "kernelforge_us": 250.0,
        },
    }
]
ENV = {"cpu": "A CPU", "threads": 2, "torch": "2.15.0", "toolchain": "g++ 12.2.0"}


def _report(**more):
    rows = rows_of(
        CARDS,
        PLANS,
        {"c-1": {"ok": 7, "compile_error": 1}},
        {"c-2": "no template <serves> it"},
    )
    model = {
        "eager_ms": 250.0,
        "kernelforge_ms": 180.0,
        "ratio": 1.39,
        "low": 1.36,
        "high": 1.41,
        "samples": 30,
    }
    data = {"schema": 1, "made": "2026-12-01T10:00:00Z", "name": "net", "note": "random weights", "study": "net-1", "store": "/s.db", "pack": "/p",
            "env": ENV, "rows": rows, "model": model, "seconds": {"profile": 2.0, "search": 60.0, "total": 75.0}, "tree": [], "outputs": {}}  # fmt: skip
    return Report({**data, **more})


def test_a_row_sums_its_variants_and_counts_those_that_eager_keeps():
    row = next(r for r in _report().to_dict()["rows"] if r["card"] == "c-1")
    # 2 x 1000 us become 2 x 250; 1 x 500 stays: 2500 -> 1000.
    assert (row["eager_us"], row["kernelforge_us"], row["ratio"]) == (2500.0, 1000.0, 2.5)
    assert row["low"] == pytest.approx(2500 / 1500)
    assert row["high"] == pytest.approx(2500 / 900)
    assert (row["variants_served"], row["variants"], row["calls"]) == (1, 2, 3)


def test_a_row_that_eager_keeps_is_there_with_ratio_one_and_its_reason():
    row = next(r for r in _report().to_dict()["rows"] if r["card"] == "c-2")
    assert (row["ratio"], row["low"], row["high"], row["served"]) == (1.0, 1.0, 1.0, False)
    assert row["kernelforge_us"] == row["eager_us"] == 2700.0
    assert "no template" in row["why"]
    assert "eager: no template" in str(_report())


def test_text_claims_the_bound_and_names_the_interval_the_verdicts_and_the_places():
    text = str(_report())
    for part in (
        "at least 1.36x (median 1.39x",
        "1.36 to 1.41, 30 pairs",
        "8 judged (7 ok, 1 compile_error)",
        "/p",
        "random weights",
        "1 of 2 variants",
    ):
        assert part in text


def test_a_model_that_was_not_measured_says_why():
    assert "not measured (winners wait for approval)" in str(
        _report(model={"ratio": None, "why": "winners wait for approval"})
    )


def test_an_interval_that_includes_one_is_called_no_gain_and_a_withdrawn_pack_says_why():
    model = {"eager_ms": 9.0, "kernelforge_ms": 9.0, "ratio": 1.0, "low": 0.98, "high": 1.03, "samples": 30}
    unsure = _report(model={**model, "finding": "no gain of the whole model shown"})
    assert "no gain of the whole model shown: the interval includes 1" in str(unsure)
    assert "no gain of the whole model shown" in unsure.to_html()
    gone = _report(model=model, withdrawn="the whole model is slower with plans (0.90x)")
    assert "withdrawn, eager runs: the whole model is slower with plans (0.90x)" in str(gone)
    assert "the whole model is slower with plans (0.90x)" in gone.to_html()
    assert "no gain" not in str(_report())


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.outside, self.open, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.outside += [v for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "br", "line", "circle", "rect", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "circle", "rect"):
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_well_formed_refers_to_nothing_outside_and_escapes_names():
    tree = [{"card": "c-1", "op": "aten::max_pool2d", "nodes": 9, "verdicts": {"ok": 7, "compile_error": 1}, "best": 0.25,
             "path": [{"node": 1, "family": "pool", "change": "", "cost": 0.5, "status": "ok"},
                      {"node": 4, "family": "pool", "change": "VEC 4 -> 8", "cost": 0.25, "status": "ok"}]}]  # fmt: skip
    page = _Page()
    page.feed(_report(tree=tree, name="<script>alert(1)</script>").to_html())
    assert not page.outside
    assert not page.open
    text = " ".join(page.text)
    assert "VEC 4 -> 8" in text
    assert "<script>alert(1)</script>" in text  # as text, since the parser saw no such tag
    assert "http" not in text


def test_the_page_says_who_wrote_the_candidates_and_what_that_took():
    source = {"author": "openai:<small>", "asked": 9, "judged": 8, "valid": 3, "mended": 2, "unfinished": 1, "repairs": 4, "gain": 1.5,
              "seconds": 61.0, "calls": 12, "tokens_in": 34567, "tokens_out": 8910, "usd": 0.0123}  # fmt: skip
    authors = {"calls": 12, "tokens_in": 34567, "tokens_out": 8910, "usd": 0.0123, "forecast": [], "sources": [source],
               "yields": [{"author": "openai:<small>", "op": "aten::relu", "judged": 8, "valid": 3, "mended": 2, "unfinished": 1}],
               "stopped": [{"author": "openai:<small>", "why": "no <key>", "op": ""}]}  # fmt: skip
    report = _report(authors=authors)
    page = _Page()
    page.feed(report.to_html())
    assert not page.open
    text = "|".join(page.text)
    assert "openai:<small>|8|3|5|1|1.50x|1 min 01 s|12|34,567|8,910|0.0123 USD" in text
    for told in (
        "openai:<small> on relu: 3 of 8 right before repair, 5 after, 1 unfinished (not disproved)",
        "openai:<small> stopped: no <key>",
    ):
        assert told in text and f"  {told}\n" in f"{report}\n"
    assert "Who wrote" not in _report().to_html()


def test_save_writes_by_the_name_of_the_file_and_replaces_in_one_step(tmp_path):
    report = _report()
    assert json.loads(report.save(tmp_path / "a" / "r.json").read_text())["study"] == "net-1"
    assert report.save(tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert report.save(tmp_path / "r.txt").read_text().startswith("kernelforge report: net")
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]


def test_the_interval_of_the_median_is_that_of_the_binomial():
    found = median_interval([float(x) for x in range(1, 11)])
    assert (found.median, found.low, found.high) == (
        5.5,
        2.0,
        9.0,
    )  # 1 - 2 * (1 + 10) / 1024 = 0.979; one further in: 0.891
    assert median_interval([3.0, 1.0, 2.0]).low == 1.0  # too few for 95 %: the extremes
    wide = median_interval([float(x) for x in range(100)])
    assert (wide.low, wide.high) == (39.0, 60.0)  # ranks 40 and 61, the textbook's pair for n = 100
    with pytest.raises(ValueError, match="no value"):
        median_interval([])


def test_pairs_give_the_median_of_the_ratios_not_the_ratio_of_the_medians():
    timed = from_pairs([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    assert (timed.ratio, timed.eager_ms, timed.kernelforge_ms) == (2.0, 4.0, 2.0)
    with pytest.raises(ValueError, match="pair 1 eager samples with 2"):
        from_pairs([1.0], [1.0, 2.0])


class _Terminal:
    def __init__(self, tty):
        self.text, self._tty = "", tty

    def isatty(self):
        return self._tty

    def write(self, text):
        self.text += text

    def flush(self):
        pass


PROGRESS = {
    "runs": 3,
    "runs_done": 1,
    "candidates": 10,
    "candidates_budget": 40,
    "seconds_left": 125.0,
    "best": {"c-1": 0.25, "c-2": 0.9},
}


def test_progress_is_silent_when_the_stream_is_no_terminal():
    stream = _Terminal(tty=False)
    bar = Progress("auto", stream=stream)
    bar.show(PROGRESS, force=True)
    bar.say("words")
    bar.clear()
    assert stream.text == ""


def test_progress_shows_time_left_and_the_best_so_far_and_leaves_no_line_behind(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = _Terminal(tty=True)
    monkeypatch.setenv("COLUMNS", "200")
    bar = Progress("auto", {"c-1": "max_pool2d"}, stream=stream)
    bar.show(PROGRESS, force=True)
    assert "10/40 candidates, 1/3 operators, 2 min 05 s left, best max_pool2d 4.00x" in stream.text
    assert "\x1b" not in stream.text
    bar.clear()
    assert stream.text.endswith("\r")


def test_a_line_too_long_for_its_terminal_loses_the_bar_before_its_words(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = _Terminal(tty=True)
    monkeypatch.setenv("COLUMNS", "80")
    bar = Progress("auto", {"c-1": "max_pool2d"}, stream=stream)
    bar.show(PROGRESS, force=True)
    assert stream.text.strip() == "10/40 candidates, 1/3 operators, 2 min 05 s left, best max_pool2d 4.00x"


def test_a_remark_makes_no_rule_and_a_search_that_ran_out_says_how_to_go_on():
    text = str(_report(budget={"out_of_time": True, "max_seconds": 150.0}))
    rule = next(line for line in text.splitlines() if line.startswith("---"))
    assert rule.endswith("-" * len("at least (median)")) and len(rule.split()) == 7
    assert "ended with its 2 min 30 s" in text and "--budget-s" in text
    assert "--budget-s" not in str(_report(budget={"out_of_time": False, "max_seconds": 150.0}))


def test_operators_that_were_timed_on_a_busy_machine_are_told():
    model = {"ratio": 1.4, "eager_ms": 2.5, "kernelforge_ms": 1.8, "low": 1.3, "high": 1.5, "samples": 30}
    assert "busy" in str(_report(model=model))  # 5.2 ms of operators in 2.5 ms
    assert "busy" not in str(_report(model={**model, "eager_ms": 2.7}))
    assert "busy" not in str(_report(model={"ratio": None, "why": "no plan"}))
    # A device's operators are timed with cold caches, its model is not.
    assert "busy" not in str(_report(model=model, env={**ENV, "driver": "580", "device": "A GPU"}))


def test_the_time_that_no_row_has_is_told():
    assert "in others" not in str(_report())  # 40 and 60 %
    rows = [r | {"share": r["share"] / 4} for r in _report().to_dict()["rows"]]
    assert "75 % of the operators' time is in others" in str(_report(rows=rows))


def test_progress_paints_unless_told_not_to(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in Progress("auto", stream=_Terminal(tty=True)).line(PROGRESS)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (3725, "1 h 02 min")]
)
def test_durations_for_people(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            {"nodes": [{}, {}], "best": 0.9, "confirmed": [{"accepted": False, "ratio": 1.02, "detail": "near"}, {"accepted": False, "ratio": 0.9, "detail": "far"}]},
            "best candidate when confirmed: near",
        ),
        (
            {"nodes": [{}, {}], "best": 0.2, "left_out": {}, "confirmed": [{"accepted": True, "low": 3.9, "ratio": 4.0}, {"accepted": False, "ratio": 5.0, "detail": "unsure"}]},
            "winner left out, at least 3.90x when confirmed: the model is not surely faster with it",
        ),
        (
            {"nodes": [{}, {}], "best": 0.2, "left_out": {"v0": "in a fresh process (2 of 3) it is 0.70 times eager's speed"}, "confirmed": [{"accepted": True, "low": 1.05, "ratio": 1.08}]},
            "winner left out, at least 1.05x when confirmed: in a fresh process (2 of 3) it is 0.70 times eager's speed",
        ),
        ({"nodes": [{}, {}], "best": 0.8, "confirmed": []}, "no gain confirmed"),
        ({"nodes": [{}, {}], "best": 1.0, "confirmed": []}, "no candidate was faster"),
        ({"nodes": [{}], "best": 1.0, "confirmed": [], "why": "budget: 0.5 seconds are left, and a candidate takes about 2.0"},
             "not reached within the budget (0.5 seconds are left, and a candidate takes about 2.0)"),
            ({"nodes": [{}], "best": 1.0, "confirmed": [], "why": ""}, "not reached within the budget"),
    ],
)  # fmt: skip
def test_a_card_that_eager_keeps_says_how_near_it_came(run, why):
    assert _why_eager(run) == why
