"""Pools, norms and softmax against eager by the referee's rules: windows, layouts, odd sizes, dtypes, ties, NaN, infinities, huge means."""

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
    for i, dtype in ((0, F32), (0, BF16), (3, F16), (6, F32)):  # the composite, without indices
        points = "axes" if i == 0 and dtype is F32 else "default"
        for xs in (_planes(dtype), _last(dtype)):
            sites.append(Site("aten::max_pool2d", tuple((x, *MAX_WINDOWS[i]) for x in xs), points))
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
            sites.append(
                Site("aten::avg_pool2d", tuple((x, *window) for x in _planes(dtype)), points, families=2)
            )
            if i != 4:
                few = [x for x in _last(dtype) if min(x.shape[2:]) >= 7] if i == 5 else _last(dtype)
                sites.append(Site("aten::avg_pool2d", tuple((x, *window) for x in few), points))
    for dtype in FLOATS:
        for size in ([3, 3], [7, 5], [1, 4]):
            if dtype in (F32, BF16) or size == [3, 3]:
                name, points = (
                    "aten::_adaptive_avg_pool2d",
                    "axes" if dtype is F32 and size == [3, 3] else "default",
                )
                sites.append(Site(name, tuple((x, size) for x in _planes(dtype)), points))
                sites.append(Site(name, tuple((x, size) for x in _last(dtype)), points))
    # Windows of whole vectors and of a vector and a bit, 112 columns in blocks of every size.
    sites.append(
        Site("aten::_adaptive_avg_pool2d", ((_t(2, 3, 32, 112), [2, 7]), (_t(1, 2, 9, 50), [2, 7])), "axes")
    )
    sites.append(Site("aten::avg_pool2d", ((_t(3, 9, 33), *AVG_WINDOWS[0]),)))
    sites.append(Site("aten::avg_pool2d.out", ((_t(2, 3, 8, 10), *AVG_WINDOWS[1], _t(2, 3, 4, 5)),)))
    sites.append(Site("aten::adaptive_avg_pool2d.out", ((_t(2, 3, 8, 10), [4, 5], _t(2, 3, 4, 5)),)))
    return sites


def _batch_norms() -> list[Site]:
    """Parameters of the data's type, of float32 and absent."""
    sites = []

    def arguments(x: torch.Tensor, dtype: torch.dtype, affine: bool) -> tuple[Any, ...]:
        n = x.shape[1]
        weight, bias = (_t(n, dtype=dtype, seed=1), _t(n, dtype=dtype, seed=2)) if affine else (None, None)
        return (x, weight, bias, _t(n, dtype=dtype, seed=3), _t(n, dtype=dtype, seed=4).abs() + 0.1)

    shapes = [(2, 5, 7, 9), (3, 37, 4, 4), (1, 3, 33), (2, 16, 2, 3, 5)]
    for dtype in FLOATS:
        for parameters in (dtype, F32) if dtype in (BF16, F16) else (dtype,):
            some = [_t(*shape, dtype=dtype) for shape in shapes[:2]]
            some.append(_t(2, 9, 5, 8, dtype=dtype)[:, 2:6])
            last = [x.contiguous(memory_format=torch.channels_last) for x in some]
            points = "axes" if dtype in (F32, BF16) and parameters is F32 else "default"
            for xs in (some, last):
                variants = tuple((*arguments(x, parameters, True), False, 0.1, 1e-5) for x in xs)
                sites.append(Site("aten::native_batch_norm", variants, points))
    for x in (_t(3, 5, 33), _t(2, 16, 2, 3, 5), _t(7, 37), _t(64, 5)):
        sites.append(
            Site("aten::_native_batch_norm_legit_no_training", ((*arguments(x, F32, False), 0.1, 1e-3),))
        )
        sites.append(Site("aten::_native_batch_norm_legit", ((*arguments(x, F32, True), False, 0.1, 1e-3),)))
    return sites


def _softmaxes() -> list[Site]:
    sites = []
    for dtype in FLOATS:
        for name in ("_softmax", "_log_softmax"):
            points = "axes" if dtype in (F32, BF16) else "default"
            rows = [
                _t(5, 7, dtype=dtype),
                _t(33, 64, dtype=dtype),
                _t(3, 197, dtype=dtype),
                _t(40, 16, dtype=dtype),
                _t(2, 1111, dtype=dtype),
            ]
            sites.append(Site(f"aten::{name}", tuple((x, 1, False) for x in rows), points))
            inside = [_t(2, 5, 7, 9, dtype=dtype), _t(3, 21, 8, 8, dtype=dtype), _t(2, 33, 1, 3, dtype=dtype)]
            sites.append(Site(f"aten::{name}", tuple((x, 1, False) for x in inside), points))
    for dtype in FLOATS:  # long columns, which are swept
        for name in ("_softmax", "_log_softmax"):
            points = "axes" if dtype is F32 or (dtype is BF16 and name == "_softmax") else "default"
            long = (_t(301, 67, dtype=dtype), _t(258, 2100, dtype=dtype))
            sites.append(Site(f"aten::{name}", tuple((x, 0, False) for x in long), points, families=2))
            sites.append(Site(f"aten::{name}", ((_t(3, 257, 5, 7, dtype=dtype), 1, False),), families=2))
    sites.append(Site("aten::_softmax", ((_t(37, 5), 0, False), (_t(5, 64), 0, False))))
    sites.append(Site("aten::_softmax", ((_t(37), -1, False),)))
    sites.append(Site("aten::_softmax.out", ((_t(9, 37), 1, False, _t(9, 37)),)))
    sites.append(Site("aten::_log_softmax.out", ((_t(9, 5, 7), 1, False, _t(9, 5, 7)),)))
    return sites


def _affine(shape: list[int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return _t(*shape, dtype=dtype, seed=1), _t(*shape, dtype=dtype, seed=2)


def _row_norms() -> list[Site]:
    sites = []
    for dtype in FLOATS:
        points = "axes" if dtype in (F32, BF16) else "default"
        for parameters in (dtype, F32) if dtype is BF16 else (dtype,):
            for affine in (True, False) if dtype in (F32, BF16) else (True,):
                xs = [_t(6, n, dtype=dtype) for n in (1, 7, 197, 5000)] + [_t(5, 3, 48, dtype=dtype)[:, 1]]
                for x in xs:  # a card has one normalized_shape; the binary is the same for all
                    n = [x.shape[-1]]
                    weight, bias = _affine(n, parameters) if affine else (None, None)
                    sites.append(Site("aten::native_layer_norm", ((x, n, weight, bias, 1e-5),), points))
        for x in (_t(3, 5, 64, dtype=dtype), _t(2, 7, 333, dtype=dtype)):
            n = [x.shape[-1]]
            sites.append(Site("aten::_fused_rms_norm", ((x, n, _affine(n, dtype)[0], 1e-6),), points))
            sites.append(Site("aten::_fused_rms_norm", ((x, n, None, None),)))
    x, shape = _t(3, 4, 6, 5), [6, 5]
    sites.append(Site("aten::native_layer_norm", ((x, shape, _t(*shape, seed=1), None, 1e-5),)))
    into = (torch.empty_like(x), torch.empty(3, 4, 1, 1), torch.empty(3, 4, 1, 1))
    sites.append(
        Site("aten::native_layer_norm.out", ((x, shape, _t(*shape, seed=1), _t(*shape), 1e-5, *into),))
    )
    return sites


def _group_norms() -> list[Site]:
    sites = []
    shapes = [(2, 12, 5, 7), (3, 20, 8, 8), (1, 36, 9, 33)]
    for dtype in FLOATS:
        for parameters in (dtype, F32) if dtype is BF16 else (dtype,):
            for last in (False, True) if dtype is not F64 else (False,):
                points = "axes" if dtype in (F32, BF16) and parameters is dtype else "default"
                for n, c, h, w in shapes if dtype in (F32, BF16) else shapes[:1]:
                    x = _t(n, c, h, w, dtype=dtype) + 0.3
                    x = x.contiguous(memory_format=torch.channels_last) if last else x
                    sites.append(
                        Site(
                            "aten::native_group_norm",
                            ((x, *_affine([c], parameters), n, c, h * w, 4, 1e-5),),
                            points,
                        )
                    )
    x = _t(2, 6, 50)
    sites.append(Site("aten::native_group_norm", ((x, None, None, 2, 6, 50, 3, 1e-5),)))
    into = (torch.empty_like(x), torch.empty(2, 3), torch.empty(2, 3))
    sites.append(Site("aten::native_group_norm.out", ((x, _t(6), None, 2, 6, 50, 3, 1e-5, *into),)))
    return sites


SITES = _max_pools() + _avg_pools() + _batch_norms() + _softmaxes() + _row_norms() + _group_norms()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
