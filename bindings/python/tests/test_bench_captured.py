"""bench/captured.py on the host: cards are searched one by one, authored kernels beside templates, counted, and none twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import captured  # noqa: E402
import captured_card  # noqa: E402

from kernelforge.errors import EnvironmentFault  # noqa: E402


class Net(torch.nn.Module):
    """A linear layer, for which the host has authored kernels and no template, and a pool, for which it has templates."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x, image):
        return self.linear(x), torch.nn.functional.max_pool2d(image, 3, 2, ceil_mode=True)


def _net(device, tiny):
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(131, 4), torch.randn(2, 16, 96, 96)), "a net"


@pytest.fixture
def run(tmp_path, monkeypatch, clean):
    """Run the bench with more options; give its exit code and file."""
    monkeypatch.setenv("KERNELFORGE_HOME", str(tmp_path / "home"))  # put back afterwards: the bench sets it
    for table, value in (("MODELS", _net), ("PAPER", "Net"), ("TITLES", "a net")):
        monkeypatch.setattr(captured, table, {"net": value})
    monkeypatch.setattr(captured_card, "AUTHORED", {"aten::addmm": ("linear", lambda call: {})})

    def run(*options):
        out = tmp_path / "captured.json"
        argv = ["captured.py", "--device", "cpu", "--min-share", "0", "--candidates", "3", "--commit", "abc"]
        argv += ["--out", str(out), "--home", str(tmp_path / "home")]
        monkeypatch.setattr(sys, "argv", [*argv, *options])
        return captured.main(), json.loads(out.read_text())

    return run


def test_captured_kernels_are_searched_counted_and_nothing_twice(run):
    code, result = run("--budget-s", "0")
    assert code == captured.UNFINISHED and result["left"] == ["net"] and not result["rows"]
    code, result = run("--budget-s", "400")
    assert code == 0 and "left" not in result
    rows = {r["op"]: r for r in result["rows"]}
    linear, pool = rows["aten::addmm"], rows["aten::max_pool2d_with_indices"]
    assert linear["verdicts"] == {"ok": 2, "wrong_value": 1}, "the authored kernels were not all judged"
    assert linear["best"].startswith("authored 0") and linear["best_by"] == "authored"
    assert pool["candidates"] == 3 and pool["best_by"] == "template"
    for row in (linear, pool):
        assert row["beat_eager"] is (row["low"] > 1) and row["low"] <= row["ratio"] <= row["high"]
        assert row["ours_us"] == pytest.approx(row["eager_us"] / row["ratio"])
    one = result["summary"]["models"]["Net"]
    assert one["captured"] == len(result["rows"]) and one["candidates"] == 6
    assert result["beat_eager"] == {"Net": sum(bool(r["beat_eager"]) for r in result["rows"])}
    code, again = run("--budget-s", "400")
    assert code == 0 and [r.get("made") for r in again["rows"]] == [r.get("made") for r in result["rows"]]


def _card(name, op, share, **more):
    return {"id": name, "overload": op, "share": share, **more}


def test_a_model_whose_library_is_missing_is_left_and_the_others_are_counted(run, monkeypatch, capsys):
    def missing(device, tiny):
        raise EnvironmentFault("make the model `gone`: no such library", hint="install it")

    monkeypatch.setitem(captured.MODELS, "gone", missing)
    monkeypatch.setitem(captured.PAPER, "gone", "Gone")
    code, result = run("--budget-s", "60", "--min-share", "1")
    assert code == captured.UNFINISHED and result["left"] == ["gone"]
    assert result["missing"] == {"gone": "make the model `gone`: no such library"}
    assert result["models"]["net"]["done"] and "install it" in capsys.readouterr().err


def test_each_operators_largest_card_comes_first():
    cards = [_card("a", "mul", 0.1), _card("b", "mul", 0.3), _card("c", "cat", 0.05), _card("d", "mul", 0.2)]
    assert [c["id"] for c in captured_card.in_order(cards)] == ["b", "c", "d", "a"]


def test_a_variant_that_eager_wins_counts_as_eager_and_one_below_the_margin_is_not_served():
    variants = [{"id": v, "calls": 1, "eager_us": 100.0} for v in ("v0", "v1")]
    card = {"id": "c", "overload": "aten::add.Tensor", "layout": "contiguous", "share": 0.1}

    def confirmed(variant, low, accepted=False, samples=9):
        times = {"eager_us": 100.0, "ratio": low + 0.001, "low": low, "high": low + 0.002}
        return {
            "variant": variant,
            "node": 1,
            "accepted": accepted,
            "samples": samples,
            "detail": "no",
            **times,
        }

    def run(*samples):
        node = {"node": 1, "status": "ok", "cost": 0.9, "family": "pointwise", "change": ""}
        return captured_card.told(
            {**card, "variants": variants}, {"confirmed": samples, "nodes": [node], "why": "of the model"}
        )

    half = run(confirmed("v0", 2.0, accepted=True), confirmed("v1", 0.9))
    assert half["low"] == pytest.approx(200 / 150) and half["beat_eager"] and half["served"]
    assert half["variants_beaten"] == 1
    little = run(confirmed("v0", 1.004), confirmed("v1", 0.9))
    assert little["beat_eager"] and not little["served"]
    none = run(confirmed("v0", 0.99), confirmed("v1", 3.0, samples=0))  # the second was wrong, not timed
    assert not none["beat_eager"] and none["low"] == 1.0 and none["why"] == "no"
    assert none["ended"] == "of the card"
    late = run()
    assert late["beat_eager"] is None and "no time was left" in late["why"] and late["best"] == "pointwise"


def test_operators_are_counted_once_for_a_model_of_the_paper():
    def row(model, op, beat):
        return {"model": model, "op": op, "beat_eager": beat, "served": bool(beat), "candidates": 2}

    models = {
        name: {"paper": "SD", "captured": 3, "done": done} for name, done in (("sd35", True), ("vae", False))
    }
    rows = [row("sd35", "mul", True), row("sd35", "mul", False), row("vae", "mul", True)]
    rows += [row("vae", "mm", False), row("vae", "cat", None)]
    found = captured.summary({"models": models, "rows": rows})
    one = found["models"]["SD"]
    assert (one["captured"], one["counted"], one["cards_beat_eager"], one["candidates"]) == (6, 4, 2, 10)
    assert (one["operators"], one["operators_beat_eager"], one["done"]) == (2, 1, False)
    assert found["all"]["operators_beat_eager"] == 1


def _norm(channels, dtype="bfloat16"):
    args = [{"name": "input", "kind": "tensor", "dtype": dtype}, {"name": "weight", "kind": "tensor"}]
    values = {"C": channels, "HxW": 4096, "group": 32, "eps": 1e-6}
    return {"call": {"args": [*args, *({"name": k, "kind": "int", "value": v} for k, v in values.items())]}}


def test_authored_kernels_are_given_the_sizes_of_a_card_or_none_at_all():
    card = {"overload": "aten::native_group_norm", "layout": "contiguous", "target": "cuda"}
    found = captured_card.authored({**card, "variants": [_norm(128), _norm(128)]})
    assert len(found) == 6
    for source, spec in found:
        assert spec["constants"]["AREA"] == "4096" and spec["constants"]["CHANNELS"] == "4"
        assert spec["constants"]["EPS"] == "1e-06f" and spec["idea"].startswith("authored 0")
        assert "KF_KERNEL" in source
    for others in ([_norm(128), _norm(256)], [_norm(128, "float16")]):
        assert captured_card.authored({**card, "variants": others}) == []


def test_kernels_of_any_length_are_for_rows_of_several_and_none_for_several_rows():
    def product(rows, length, stride=None):
        x = {"name": "self", "kind": "tensor", "dtype": "bfloat16", "sizes": [rows, length]}
        weight = {"name": "mat2", "kind": "tensor", "sizes": [length, 64], "strides": [1, stride or length]}
        return {"call": {"args": [x, weight]}}

    def names(*variants):
        card = {"overload": "aten::mm", "layout": "contiguous", "target": "cuda", "variants": variants}
        found = captured_card.authored(card)
        assert all(s["constants"].get("LENGTH", "1536") == "1536" for _, s in found)
        return [s["idea"].split()[1][:2] for _, s in found]

    assert names(product(1, 1536)) == ["01", "02", "03", "04", "05", "06"]
    assert names(product(1, 1536), product(1, 2048)) == ["05", "06"]
    for other in (product(2048, 1536), product(1, 1532), product(1, 1536, 2048)):
        assert names(product(1, 1536), other) == []


def test_models_are_searched_side_by_side_into_one_file(tmp_path, monkeypatch):
    """Two real processes, of tiny models that this tree makes itself: each saves its rows beside the other's."""
    out, home = tmp_path / "captured.json", tmp_path / "home"
    words = ["--device", "cpu", "--tiny", "--lanes", "2", "--only", "resnet50", "vae", "--candidates", "1"]
    words += ["--min-share", "1", "--budget-s", "120", "--commit", "abc", "--tier", "0"]
    command = [sys.executable, str(BENCH / "captured.py"), *words, "--out", str(out), "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert list(result["models"]) == ["resnet50", "vae"] and all(m["done"] for m in result["models"].values())
    assert [r["model"] for r in result["rows"]] == sorted(r["model"] for r in result["rows"])
    assert {r["model"] for r in result["rows"]} == {"resnet50", "vae"} and "left" not in result
    assert "ResNet-50" in done.stdout and result["commit"] == "abc" and "--lanes 2" in result["command"]


def test_a_file_that_others_write_too_keeps_their_models():
    def row(model, n):
        return {"model": model, "card": n}

    there = {"models": {"vae": {"done": True}}, "rows": [row("vae", 1), row("resnet50", 0)]}
    there |= {"left": ["resnet50", "gemma4"], "failed": {"gemma4": "it raised"}}
    ours = {"models": {"resnet50": {"done": False}}, "rows": [row("resnet50", 1)], "failed": {}}
    found = captured.merged(ours, there, ["resnet50"])
    assert list(found["models"]) == ["resnet50", "vae"]
    assert found["rows"] == [row("resnet50", 1), row("vae", 1)]
    assert found["left"] == ["resnet50", "gemma4"] and found["failed"] == {"gemma4": "it raised"}


def test_a_card_gets_its_part_of_the_time_and_none_that_would_end_too_late():
    assert captured.box_of(100.0, 4, []) == 25.0 and captured.box_of(1000.0, 4, []) == captured.MOST_S
    assert captured.box_of(100.0, 4, [5.0, -20.0, 9.0]) == 20.0, "cards take longer than their own seconds"
    assert captured.box_of(100.0, 40, [5.0]) == captured.LEAST_S
    assert captured.box_of(12.0, 1, [7.0]) is None and captured.box_of(13.0, 1, [7.0]) == 6.0
    assert captured.box_of(20.0, 1, [300.0]) is not None, "one that hung once ends no model early"


def test_a_model_that_raises_is_told_and_the_others_are_counted(run, monkeypatch, capsys):
    class Raises(torch.nn.Module):
        def forward(self, x):
            raise ValueError("not this time")

    monkeypatch.setitem(captured.MODELS, "bad", lambda device, tiny: (Raises(), (torch.ones(2),), ""))
    monkeypatch.setitem(captured.PAPER, "bad", "Bad")
    code, result = run("--budget-s", "60", "--min-share", "1")
    assert code == captured.UNFINISHED and result["left"] == ["bad"] and result["models"]["net"]["done"]
    assert "not this time" in result["failed"]["bad"] and "missing" not in result
