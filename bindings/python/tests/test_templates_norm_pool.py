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


def _last(dtype: torch.dtype) -> list[torch.Tensor]:
    """Channels inside: fewer and more than a vector, a slice with gaps."""

    def last(*sizes: int) -> torch.Tensor:
        return _t(*sizes, dtype=dtype).contiguous(memory_format=torch.channels_last)

    return [last(2, 3, 7, 9), last(2, 37, 8, 6), last(1, 100, 11, 5), last(2, 24, 9, 12)[:, 4:, 1:, 3:]]


def _max_pools() -> list[Site]:
    name, sites = "aten::max_pool2d_with_indices", []
    for i, window in enumerate(MAX_WINDOWS):
        for dtype in FLOATS:
            if i < 2 or dtype in (F32, BF16):
                points = "axes" if i < 2 and dtype is F32 else "default"
                sites.append(Site(name, tuple((x, *window) for x in _planes(dtype)), points))
                if i % 2 == 0 or dtype is F32:
                    sites.append(Site(name, tuple((x, *window) for x in _last(dtype)), points))
    sites.append(Site(name, ((_t(3, 9, 33), *MAX_WINDOWS[0]), (_t(5, 8, 8), *MAX_WINDOWS[0]))))
    into = (torch.empty(2, 3, 4, 16), torch.empty(2, 3, 4, 16, dtype=torch.int64))
    sites.append(Site(f"{name}.out", ((_t(2, 3, 9, 33), *MAX_WINDOWS[0], *into),)))
    return sites


# kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
AVG_WINDOWS: list[tuple[Any, ...]] = [
    ([3, 3], [1, 1], [1, 1], False, True, None),  # inception
    ([2, 2], [2, 2], [0, 0], False, True, None),  # densenet
    ([3, 3], [2, 2], [1, 1], True, False, None),
    ([3, 2], [2, 1], [1, 1], True, True, None),
    ([5, 4], [3, 3], [2, 2], False, False, 7),
    ([7, 7], [1, 1], [0, 0], False, True, None),
]


def _avg_pools() -> list[Site]:
    sites = []
    for i, window in enumerate(AVG_WINDOWS):
        for dtype in FLOATS if i < 2 else (F32, BF16):
            points = "axes" if i == 0 and dtype is F32 else "default"
            sites.append(Site("aten::avg_pool2d", tuple((x, *window) for x in _planes(dtype)), points, families=2))
            if i != 4:
                few = [x for x in _last(dtype) if min(x.shape[2:]) >= 7] if i == 5 else _last(dtype)
                sites.append(Site("aten::avg_pool2d", tuple((x, *window) for x in few), points))
    for dtype in FLOATS:
        for size in ([3, 3], [7, 5], [1, 4]):
            if dtype in (F32, BF16) or size == [3, 3]:
                name, points = "aten::_adaptive_avg_pool2d", "axes" if dtype is F32 and size == [3, 3] else "default"
                sites.append(Site(name, tuple((x, size) for x in _planes(dtype)), points))
                sites.append(Site(name, tuple((x, size) for x in _last(dtype)), points))
    sites.append(Site("aten::avg_pool2d", ((_t(3, 9, 33), *AVG_WINDOWS[0]),)))
    sites.append(Site("aten::avg_pool2d.out", ((_t(2, 3, 8, 10), *AVG_WINDOWS[1], _t(2, 3, 4, 5)),)))
    sites.append(Site("aten::adaptive_avg_pool2d.out", ((_t(2, 3, 8, 10), [4, 5], _t(2, 3, 4, 5)),)))
    return sites


SITES = _max_pools() + _avg_pools()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
