"""bench/ops.py: what its rows come to, its plot, and what the README says of them."""

import json
import xml.etree.ElementTree as ET

import pytest

from ops_rows import modules, result, row


@pytest.fixture
def bench(monkeypatch):
    return modules(monkeypatch)


def told(bench, rows, cases, words, target="cuda"):
    goals = bench.goals.summary(target, rows, cases)["goals"]
    return next(g for g in goals if g["goal"].startswith(words))


def test_means_are_of_native_calls_that_the_memory_bounds(bench):
    rows = [
        row("a", ours=4.0),
        row("b", ours=16.0),
        row("small", ours=400.0, roof_us=1.9),
        row("composed", ours=400.0, native=False),
        row("linear", ours=400.0, vendor=True),
        row("in model", ours=400.0, group="model"),
        row("failed", eager_us=None, copy_us=None),
    ]
    found = bench.goals.summary("cuda", rows, 9)
    assert found["native"]["rows"] == 2 and found["measured"] == 6
    assert found["native"]["kernelforge_over_copy"] == 2.0  # sqrt(1 * 4)
    assert found["native"]["autotune_over_kernelforge"] == 0.75  # 6 / sqrt(4 * 16)


def test_a_goal_is_judged_on_the_lower_bound_and_open_until_its_cases_are_measured(bench):
    dim1 = [row("softmax dim1 bfloat16", low=4.39, ratio=4.6), row("softmax dim1 float32", low=2.7)]
    words = "softmax over dim 1 of 2x16x1024x1024"
    assert told(bench, dim1, 2, f"{words}, bf16")["met"] is False
    assert told(bench, dim1, 2, f"{words}, fp32")["met"] is True
    assert told(bench, dim1[:1], 2, f"{words}, fp32")["met"] is None
    topk = [row("topk8 bfloat16", low=9.0)]
    assert told(bench, topk, 2, "topk")["met"] is None
    assert told(bench, [*topk, row("topk8 float32", low=8.5)], 2, "topk")["met"] is True
    assert told(bench, [row("topk8 float32", low=7.0)], 2, "topk")["met"] is False, "the other cannot mend it"
    norms = [row(n, low=1.0) for n in bench.goals._norms("layernorm")]
    assert told(bench, norms[:3], 8, "layer_norm")["met"] is None, "a mean can still rise"
    assert told(bench, norms, 8, "layer_norm")["met"] is False


def test_served_below_eager_again_is_counted_once_all_were_measured_again(bench):
    rows = [row("a", recheck_ratio=1.2), row("b"), row("c", eager=5.0)]
    words = "served cases below eager when measured again"
    assert told(bench, rows, 3, words)["met"] is None
    rows[1]["recheck_ratio"] = 0.99
    assert (told(bench, rows, 3, words)["got"], told(bench, rows, 3, words)["met"]) == (1.0, False)
    rows[1]["recheck_ratio"] = 1.01
    assert told(bench, rows, 3, words)["met"] is True


# ---- plot and README ----------------------------------------------------------------------------------------------------------------


def test_the_plot_is_well_formed_and_has_a_line_for_each_call(bench):
    rows = [
        row("softmax 4x8 float32"),
        row("cumsum float32", eager=40.0, ours=40.0),
        row("linear", vendor=True),
    ]
    drawn = ET.fromstring(bench.plot.svg(result(rows)))
    ns = {"s": "http://www.w3.org/2000/svg"}
    lines = drawn.findall("s:g", ns)
    assert [g.find("s:title", ns).text.split(":")[0] for g in lines] == [
        "cumsum float32",
        "softmax 4x8 float32",
    ]
    kept, served = ([c.get("class") for c in g.findall("s:circle", ns)] for g in lines)
    assert kept == ["inductor", "kept"] and served == ["eager", "inductor", "ours"]
    eager, ours = (float(lines[1].find(f"s:circle[@class='{c}']", ns).get("cx")) for c in ("eager", "ours"))
    width = float(drawn.get("viewBox").split()[2])
    assert bench.plot.LEFT < ours < eager < width
    assert "A <GPU>" in "".join(drawn.itertext())
    ET.fromstring(bench.plot.svg(result([])))


def test_the_readme_shows_a_result_only_where_there_is_one(bench, tmp_path):
    import readme

    assert readme.ops(tmp_path) == []
    data = result([row("a", ours=4.0), row("topk8 float32", ours=8.0, low=1.2)])
    data["summary"] = bench.goals.summary("cuda", data["rows"], 2)
    (tmp_path / "ops-x.json").write_text(json.dumps(data))
    text = "\n".join(readme.ops(tmp_path))
    assert "kernelforge **1.41×**" in text and "ops-x.svg" in text
    assert "| topk 8 of 256, 4,096 rows | ≥ 8 | 1.2 | missed |" in text
    # Of fewer than half of the cases the rows are shown, and no means.
    data["summary"] = bench.goals.summary("cuda", data["rows"], 5)
    (tmp_path / "ops-x.json").write_text(json.dumps(data))
    text = "\n".join(readme.ops(tmp_path))
    assert "2 of 5 calls are measured so far" in text and "missed" not in text and "ops-x.svg" not in text
    assert "| topk8 float32 | " in text and " | 1.20× |" in text
