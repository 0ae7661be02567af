"""Integers at the ends of their types, as masks and sentinels are: the referee draws and compares them like any others."""

import pytest
import torch

from kernelforge import _ext, _search
from kernelforge.referee.bounds import compare
from kernelforge.referee.cases import Variant, bounds_of
from kernelforge.referee.draws import Moments, Slot

TYPES = ("int64", "int32", "int16", "int8", "uint8")
LEAST, MOST = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("ends", ["both", "most", "least", "next", "odd"])
def test_integers_are_drawn_within_what_was_seen(name, ends):
    dtype = getattr(torch, name)
    info = torch.iinfo(dtype)
    seen = {
        "both": [info.min, info.max],
        "most": [info.max],
        "least": [info.min],
        "next": [info.max - 1, info.max],
        "odd": [info.max // 2 + 1],  # 2^62 + ... + 1 is no float64
    }[ends]
    moments = Moments.of(torch.tensor(seen, dtype=dtype))
    slot = Slot("self", {"dtype": name, "sizes": [5, 7], "strides": [7, 1]}, read=True)
    chance = torch.Generator().manual_seed(0)
    for drawn in (slot.like(moments, chance), slot.integers(moments, chance)):
        assert drawn.dtype is dtype
        assert min(seen) <= drawn.min().item() <= drawn.max().item() <= max(seen)


@pytest.mark.parametrize("name", TYPES)
def test_integers_that_nobody_saw_fit_their_type(name):
    slot = Slot("self", {"dtype": name, "sizes": [64], "strides": [1]}, read=True)
    drawn = slot.like(Moments(), torch.Generator().manual_seed(0))
    assert -4 <= drawn.min().item() <= drawn.max().item() <= 4


WIDE = torch.tensor([[MOST, LEAST, 0], [1, MOST, MOST]])
FULL = torch.full((2, 3), MOST)


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.where(WIDE > 0, WIDE, FULL),
        lambda: torch.where(WIDE > 0, WIDE, 0.5),
        lambda: torch.cat([WIDE, FULL]),
        lambda: torch.empty(3, 2, dtype=torch.int64).t().copy_(WIDE),
        lambda: torch.empty(2, 3).copy_(WIDE),
        lambda: torch.empty(2, 3, dtype=torch.int32).copy_(WIDE),
        lambda: WIDE.t().contiguous(),
        lambda: WIDE + FULL,
        lambda: torch.clamp(WIDE, min=5),
    ],
)
def test_calls_with_extreme_integers_are_judged(run):
    extension = _ext.load()
    extension.capture_begin(1, 1 << 20)
    try:
        run()
    finally:
        records = extension.capture_end()
    assert records
    for record in records:
        variant = Variant(record["call"], record["payloads"][0], 0)
        for item in variant.inputs():
            arguments = variant.arguments(variant.draw(item.kind, item.number))
            bounds = bounds_of(variant.overload, arguments, item.kind)
            assert compare(bounds, variant.overload(arguments)).status == "ok"


def test_a_broken_referee_says_what_the_reader_can_do(monkeypatch):
    sent = {}
    monkeypatch.setattr(_search._core, "call", lambda operation, **request: sent.update(request))

    def execute(task):
        raise OverflowError("too large")

    _search._carry_out("s", {"kind": "prepare", "task": 3}, execute, _search.Outcome({}))
    assert sent["error"]["text"] == "prepare: OverflowError: too large"
    assert "ops=[...]" in sent["error"]["hint"]
