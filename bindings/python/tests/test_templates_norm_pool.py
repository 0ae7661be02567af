"""Pooling families against eager by the referee's rules: windows, layouts, odd sizes, dtypes, ties, NaN and infinities."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from proving import Proof, Site, prove

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
FLOATS = (F32, BF16, F16, F64)


def _t(*sizes: int, dtype: torch.dtype = F32, seed: int = 0) -> torch.Tensor:
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))) * 2).to(dtype)


# kernel, stride, padding, dilation, ceil_mode
MAX_WINDOWS: list[tuple[Any, ...]] = [
    ([3, 3], [2, 2], [0, 0], [1, 1], True),  # googlenet
    ([3, 3], [1, 1], [1, 1], [1, 1], True),
    ([2, 2], [2, 2], [0, 0], [1, 1], True),
    ([3, 3], [2, 2], [1, 1], [1, 1], False),  # resnet
    ([5, 5], [1, 1], [2, 2], [1, 1], False),
    ([2, 3], [3, 2], [1, 0], [1, 1], False),
    ([3, 2], [1, 3], [1, 1], [2, 2], False),
    ([1, 1], [1, 2], [0, 0], [1, 1], False),
    ([3, 3], [2, 2], [1, 1], [1, 2], True),
    ([3, 3], [4, 4], [1, 1], [1, 1], True),
]


def _planes(dtype: torch.dtype) -> list[torch.Tensor]:
    """Planes of odd sizes: narrower and wider than a vector, a slice with gaps, without a batch dim among the last."""
    return [
        _t(2, 3, 7, 7, dtype=dtype),
        _t(3, 5, 14, 14, dtype=dtype),
        _t(2, 2, 11, 37, dtype=dtype),
        _t(1, 3, 9, 112, dtype=dtype),
        _t(3, 6, 13, 40, dtype=dtype)[1:, ::2, 1:, 3:],
    ]


def _max_pools() -> list[Site]:
    sites = []
    for i, window in enumerate(MAX_WINDOWS):
        for dtype in FLOATS:
            points = "axes" if i < 4 and dtype is F32 else "default"
            if i < 2 or dtype in (F32, BF16):
                variants = tuple((x, *window) for x in _planes(dtype))
                sites.append(Site("aten::max_pool2d_with_indices", variants, points))
    sites.append(Site("aten::max_pool2d_with_indices", ((_t(3, 9, 33), *MAX_WINDOWS[0]), (_t(5, 8, 8), *MAX_WINDOWS[0]))))
    return sites


SITES = _max_pools()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
