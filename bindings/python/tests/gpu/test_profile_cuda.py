"""A profile of a model on a device: kernel times by operator, what is attributed, telemetry, the roof, and the way without CUPTI."""

from __future__ import annotations

import json
import statistics
from typing import Any

import pytest
import torch

import kernelforge
from device_worker import PLACE
from kernelforge import _device_time, _roof
from kernelforge.errors import ModelFault
from kernelforge.referee.calls import clone, map_tensors
from kernelforge.referee.ruler import calls_of
from on_cuda import need_gpu

ALONE = ("aten::native_batch_norm", "aten::max_pool2d_with_indices", "aten::relu_", "aten::clamp_min_")


class Net(torch.nn.Module):
    """Convolution, batch norm, relu in place, pool, addition, mean and a product: what a ResNet is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.Conv2d(64, 64, 3, padding=1)
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(64) for _ in range(2)])
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu_(self.norms[0](self.first(x)))
        x = torch.max_pool2d(x, 3, 2, 1)
        x = torch.relu_(self.norms[1](self.second(x)).add_(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def net() -> tuple[Any, Any]:
    need_gpu()
    torch.manual_seed(0)
    model = Net().eval().cuda().half().to(memory_format=torch.channels_last)
    x = torch.randn(64, 3, 128, 128, device="cuda", dtype=torch.float16)
    return model, (x.to(memory_format=torch.channels_last),)


@pytest.fixture(scope="module")
def found(net: tuple[Any, Any]) -> Any:
    with torch.no_grad():
        return kernelforge.profile(*net)


def told(profile: Any) -> str:
    rest = {k: v for k, v in profile.to_dict().items() if k not in ("rows", "cards")}
    return f"\n{profile.table()}\n{json.dumps(rest, indent=1)}"


def test_device_time_is_attributed_to_operators(found: Any) -> None:
    print(told(found))
    assert found.timed_by == "cupti", told(found)
    assert found.attributed >= 0.95, told(found)
    assert found.hooked >= 0.95, told(found)
    assert sum(r["share"] for r in found.rows) == pytest.approx(1.0, abs=1e-3)
    assert 0 < found.operator_ms <= 1.1 * found.forward_ms, told(found)


def test_cards_are_of_the_device(found: Any) -> None:
    overloads = {c["overload"] for c in found.cards}
    wanted = {
        "aten::native_batch_norm",
        "aten::max_pool2d_with_indices",
        "aten::add_.Tensor",
        "aten::mean.dim",
    }
    assert wanted <= overloads, sorted(overloads)
    assert any("convolution" in o for o in overloads), sorted(overloads)
    for card in found.cards:
        assert (card["target"], card["threads"]) == ("cuda", 0)
        assert all(v["eager_us"] > 0 and v["roof_us"] >= 0 for v in card["variants"]), card
    norm = next(c for c in found.cards if c["overload"] == "aten::native_batch_norm")
    assert norm["layout"] == "channels_last"
    assert sum(v["calls"] for v in norm["variants"]) == 2


def test_times_are_those_of_the_calls_alone(found: Any) -> None:
    """The profiler's time of a call in the model, against the same call replayed alone: the same kernel, another neighbourhood."""
    told_us = {}
    for card in found.cards:
        if card["overload"].partition(".")[0] not in ALONE:
            continue
        for variant in card["variants"]:
            payload = found.payload(card["id"], variant["id"])
            assert payload is not None
            sets = [map_tensors(payload, clone) for _ in range(4)]
            with torch.no_grad():
                alone = statistics.median(calls_of(PLACE, card["overload"], sets).eager(7, 8)) / 1e3
            told_us[f"{card['overload']} {variant['id']}"] = (variant["eager_us"], alone)
    assert len(told_us) >= 3, told_us
    assert all(0.3 < seen / alone < 3 for seen, alone in told_us.values()), (
        told_us
    )  # in the model data may still lie in the L2


def test_payloads_lie_on_the_device(found: Any) -> None:
    card = next(c for c in found.cards if c["overload"] == "aten::native_batch_norm")
    payload = found.payload(card["id"], "v0")
    assert payload[0].is_cuda and payload[0].is_contiguous(memory_format=torch.channels_last)
    assert min(found.align(card["id"], "v0")) >= 16


def test_telemetry_stands_beside_it(found: Any) -> None:
    for when in ("before", "after"):
        state = found.telemetry[when]
        print(when, state)
        assert "why" in state or state["clocks_sm_mhz"] > 0, state


def test_the_roof_is_the_devices(found: Any) -> None:
    roof = _roof.measure(PLACE)
    pairs = {size: round(rate, 1) for size, rate in zip(roof.sizes, roof.rates, strict=True)}
    print(f"copy rate by bytes moved, GB/s: {pairs}; a copy takes at least {roof.start_us:.2f} us")
    assert 100 < roof.rates[-1] < 20_000, pairs
    assert 0.3 < roof.start_us < 20, pairs
    assert roof.us(64) == roof.start_us


def test_without_cupti_calls_are_timed_alone_and_it_is_said(
    net: tuple[Any, Any], found: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_device_time, "_profiled", lambda *a: ([], []))
    with torch.no_grad(), caplog.at_level("WARNING", logger="kernelforge"):
        other = kernelforge.profile(*net)
    assert other.timed_by == "events"
    assert "timed alone, by events" in caplog.text
    a = {c["id"]: sum(v["eager_us"] * v["calls"] for v in c["variants"]) for c in found.cards}
    b = {c["id"]: sum(v["eager_us"] * v["calls"] for v in c["variants"]) for c in other.cards}
    assert a.keys() == b.keys()
    large = [i for i in a if a[i] > 20]
    assert large, a
    assert all(0.4 < b[i] / a[i] < 2.5 for i in large), (a, b)


def test_a_model_and_inputs_on_two_devices(net: tuple[Any, Any]) -> None:
    with pytest.raises(ModelFault, match="several devices") as e:
        kernelforge.profile(net[0], net[1][0].cpu())
    assert "cuda:0" in str(e.value) and "cpu" in str(e.value)


def test_what_no_card_stands_for_is_a_row_with_its_name() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(torch.relu(x)).abs()

    with torch.no_grad():
        found = kernelforge.profile(model, torch.randn(512, 4096, device="cuda"))
    rest = [r for r in found.rows if r["card"] is None]
    assert any("fft" in r["op"] for r in rest), told(found)
    assert found.attributed >= 0.95, told(found)
