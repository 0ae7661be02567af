"""Topk on both targets: ties, NaN first or last, short and long rows, any dim, every count that is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from proving import Proof, Site, prove
from serving import ext, hits

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def _t(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def _ties(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.randint(-2, 3, sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def _site(*variants: tuple[Any, ...], overload: str = "topk", axes: bool = False) -> Site:
    return Site(f"aten::{overload}", variants, "axes" if axes else "default")


def _sites() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, F16, F64):
        sites += [
            _site((_t(9, 256, dtype=dtype), 8, 1, True, True), (_t(5, 64, dtype=dtype), 8, 1, True, True)),
            _site((_ties(9, 77, dtype=dtype), 5, -1, False, True)),
            _site((_t(3, 2000, dtype=dtype), 33, 1, False, False)),
        ]
    return [
        *sites,
        _site((_t(6, 128, dtype=BF16), 6, 1, True, True), axes=True),
        _site((_t(2, 2100), 9, 1, True, True), axes=True),
        _site((_ties(4, 60, 6), 4, 1, True, True), (_ties(2, 60, 8).transpose(0, 2), 4, 1, True, True)),
        _site((_t(3, 40)[:, ::2], 20, 1, True, True)),
        _site((_t(3, 128, dtype=F16), 128, 1, True, False)),
        _site((_t(70), 1, 0, False, True)),
        _site(
            (_t(3, 40), 4, 1, True, True, _t(4, 3).t(), torch.zeros(3, 4, dtype=torch.int64)),
            overload="topk.values",
        ),
    ]


SITES = _sites()
IDS = [f"{i}-{s.name}" for i, s in enumerate(SITES)]


@pytest.fixture(scope="module")
def host() -> Proof:
    return Proof(SITES)


@pytest.fixture(scope="module")
def blocks() -> Proof:
    return Proof(SITES, "cuda")


@pytest.mark.parametrize("number", range(len(SITES)), ids=IDS)
def test_topk_equals_eager(host: Proof, number: int) -> None:
    prove(host, number, SITES[number])


@pytest.mark.parametrize("number", range(len(SITES)), ids=IDS)
def test_topk_by_blocks_equals_eager(blocks: Proof, number: int) -> None:
    prove(blocks, number, SITES[number])


def test_topk_is_served_and_keeps_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "bench"))
    import guard_calls

    x, values, index = _t(6, 48), torch.empty(6, 5), torch.empty(6, 5, dtype=torch.int64)
    best = x.sort(1, descending=True).values[:, :5]
    calls = {
        "aten::topk": lambda: torch.topk(x, 5, 1),
        "aten::topk.values": lambda: torch.topk(x, 5, 1, out=(values, index)),
    }
    known = [
        guard_calls.Base(guard_calls._captured(name, function), "template")
        for name, function in calls.items()
    ]
    ext().publish(guard_calls.plans(known, "cpu"))
    try:
        ext().stats(reset=True)
        leaf = x.clone().requires_grad_()
        found, places = torch.topk(leaf, 5, 1)
        found.sum().backward()
        calls["aten::topk.values"]()
        torch.topk(x, 6, 1)  # another count is eager's
        assert (hits("aten::topk"), hits("aten::topk.values")) == (1, 1)
        assert torch.equal(found, best) and torch.equal(values, best)
        assert torch.equal(x.gather(1, places), best) and torch.equal(x.gather(1, index), best)
        assert torch.equal(leaf.grad, torch.zeros_like(x).scatter(1, places, 1.0))
    finally:
        ext().unpublish()
