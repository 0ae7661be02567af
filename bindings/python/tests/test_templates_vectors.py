"""Families for CUDA that need whole vectors, block by block on the CPU: short rows, doubled images, windows that fill the plane, strips, packed squares."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelforge.referee.bounds import same_bits
from kernelforge.referee.cases import Variant
from kernelforge.referee.reference import run_eager
from proving import Proof, Site, prove

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def _t(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def _site(overload: str, *variants: list[Any], axes: bool = False) -> Site:
    return Site(f"aten::{overload}", tuple(variants), "axes" if axes else "default", 2)


def _short_rows() -> list[Site]:
    return [
        _site("sum.dim_IntList", [_t(70, 30, 8, dtype=BF16), [2], False, None], axes=True),
        _site("sum.dim_IntList", [_t(700, 8), [1], True, None], [_t(3, 8), [1], True, None]),
        _site("mean.dim", [_t(333, 32, dtype=F16), [1], False, None]),
        _site("amax", [_t(515, 4, dtype=F16), [1], False]),
        _site("amax", [_t(129, 8, dtype=F64), [1], False]),
        _site("sum.dim_IntList", [_t(9, 11, 2, 2), [2, 3], False, None]),
        _site("mean.dim", [_t(301, 64), [1], True, None], axes=True),
        _site("amax", [_t(130, 512, dtype=F16), [1], False]),
        _site("sum.dim_IntList", [_t(515, 16, dtype=F64), [1], False, None]),
        _site("sum.dim_IntList", [_t(1030, 32, dtype=BF16), [1], False, F32]),
    ]


def _doubled() -> list[Site]:
    made = [
        _site("upsample_nearest2d", [x, [2 * x.shape[2], 2 * x.shape[3]], None, None])
        for x in (
            *(_t(2, 3, 5, 16, dtype=F16), _t(2, 3, 5, 4), _t(1, 2, 3, 6, dtype=F64)),
            *(_last(_t(2, 16, 3, 5, dtype=BF16)), _last(_t(2, 4, 3, 5))),
        )
    ]
    twice = [_t(1, 2, 7, 24, dtype=BF16), [14, 48], 2.0, 2.0]
    return [*made, _site("upsample_nearest2d", twice, axes=True)]


def _windows() -> list[Site]:
    whole = ([4, 4], [4, 4], [0, 0], False, False, None)
    return [
        _site("_adaptive_avg_pool2d", [_t(3, 5, 28, 28, dtype=BF16), [7, 7]], axes=True),
        _site("_adaptive_avg_pool2d", [_t(2, 3, 12, 8), [4, 2]], [_t(1, 2, 12, 8), [4, 2]]),
        _site("_adaptive_avg_pool2d", [_last(_t(2, 24, 15, 10, dtype=F16)), [5, 5]]),
        _site("_adaptive_avg_pool2d", [_last(_t(2, 8, 28, 28)), [7, 7]]),
        _site("avg_pool2d", [_t(2, 3, 12, 16), *whole]),
        _site("avg_pool2d", [_last(_t(2, 8, 9, 10, dtype=BF16)), [3, 2], [3, 2], [0, 0], False, True, 5]),
    ]


def _pool(x: torch.Tensor, *window: Any, axes: bool = False) -> Site:
    return _site("max_pool2d_with_indices", [x, *window, False], axes=axes)


USUAL = ([3, 3], [2, 2], [1, 1], [1, 1])


def _bands() -> list[Site]:
    return [
        _pool(_t(2, 3, 19, 32, dtype=BF16), *USUAL, axes=True),
        _pool(_t(3, 9, 16), *USUAL),
        _pool(_t(1, 2, 11, 24, dtype=F16), [2, 2], [2, 2], [0, 0], [1, 1]),
        _pool(_t(1, 2, 9, 8, dtype=F16), [3, 3], [1, 1], [1, 1], [1, 1]),
        _pool(_t(2, 3, 13, 8), [2, 4], [3, 2], [0, 1], [1, 1]),
    ]


def _strips() -> list[Site]:
    return [
        _pool(_last(_t(2, 16, 11, 7, dtype=BF16)), *USUAL, axes=True),
        _pool(_last(_t(1, 8, 12, 7)), *USUAL),
        _pool(_last(_t(2, 8, 11, 9, dtype=F16)), [2, 2], [2, 2], [0, 0], [1, 1]),
        _pool(_last(_t(1, 8, 9, 8, dtype=F16)), [4, 2], [1, 3], [2, 1], [1, 1]),
        _pool(_last(_t(1, 4, 13, 8)), [2, 3], [3, 1], [0, 1], [1, 1]),
    ]


def _squares() -> list[Site]:
    wide = _t(2, 72, 12, 10, dtype=F16)
    return [
        _site("copy_", [torch.zeros(136, 72, dtype=F16), _t(72, 136, dtype=F16).t(), False], axes=True),
        _site("copy_", [torch.zeros(72, 100), _t(100, 72).t(), False]),
        _site("copy_", [_last(torch.zeros_like(wide)), wide, False]),
        _site("copy_", [torch.zeros(wide.shape), _last(wide.float()), False]),
    ]


SITES = _short_rows() + _doubled() + _windows() + _bands() + _squares()
STRIPS = _strips()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES, "cuda")


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_vectors_equal_eager(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])


@pytest.fixture(scope="module")
def strips() -> Proof:
    return Proof(STRIPS, "cuda")


@pytest.mark.parametrize("number", range(len(STRIPS)), ids=[f"{i}-{s.name}" for i, s in enumerate(STRIPS)])
def test_strips_equal_eager(strips: Proof, number: int) -> None:
    """On a device eager's index is 0 where nothing of a window of contiguous channels is above -infinity; here it is the first place."""
    call = strips.cards[number]["variants"][0]["call"]
    v = Variant(call, list(STRIPS[number].variants[0]), seed=7)
    for case in v.inputs():
        tensors = v.draw(case.kind, case.number)
        values, index = run_eager(v.overload, v.arguments(tensors))
        expected = (values, index.masked_fill(values == -torch.inf, 0))
        for candidate in strips.candidates[number]:
            outs = strips.launch(
                candidate, strips.objects, call, tensors, at_end=case.placement == "end", pieces=1
            )
            where = f"{case.kind} {case.number}: {candidate['family']} {candidate['params']}"
            assert torch.allclose(outs[0], expected[0], rtol=0, atol=0, equal_nan=True), where
            assert same_bits(outs[1], expected[1]), where
