"""CUDA templates on the CPU, block by block (blocks.py): what they compute and touch, where eager on the CPU does the same.

KF_BLOCKS=axes tries every parameter changed alone at every site (10 minutes); otherwise one site of each kind does.

Left to the tests on a GPU: what eager does otherwise there (scalars of half types, division by a scalar); cumulative sums in float are test_templates_sums.py's.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from proving import Proof, Site, prove

BF16, F16, F32, F64, I64, U8 = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.int64,
    torch.uint8,
)


def _t(*sizes: int, dtype: torch.dtype = F32, seed: int = 0) -> torch.Tensor:
    made = torch.randn(sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))) * 2
    return (made * 20).to(dtype) if dtype in (I64, U8) else made.to(dtype)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def _site(overload: str, *variants: list[Any], axes: bool = False) -> Site:
    axes = axes or os.environ.get("KF_BLOCKS") == "axes"
    return Site(f"aten::{overload}", tuple(variants), "axes" if axes else "default")


def _pointwise() -> list[Site]:
    sliced = _t(5, 9, 40, dtype=F16)[:, ::2, 8:]
    return [
        _site("relu_", [_t(3, 5, 7, 11, dtype=F16)], [_t(2, 64, 8, 8, dtype=F16)], axes=True),
        _site(
            "relu_", [_t(2, 64, 8, 8, dtype=F16)], [_t(1, 32, 8, 8, dtype=F16)]
        ),  # whole tiles, with and without odd addresses
        _site("relu_", [_t(2, 64, 8, 8)], [_t(1, 32, 8, 8)]),
        _site("silu", [_t(70, 64, dtype=BF16)], [_t(1, 1, dtype=BF16)]),
        _site("gelu", [_t(9, 128, dtype=F16), "tanh"]),
        _site("gelu", [_t(70, 128, dtype=F16), "none"]),
        _site("tanh", [_t(999)]),
        _site("clamp", [_t(3, 33), -0.5, None]),
        _site("add.Tensor", [_last(_t(2, 16, 5, 6, dtype=BF16)), _t(16, 1, 1, dtype=BF16), 1]),
        _site("add.Tensor", [_t(2, 16, 5, 6), _t(16, 1, 1), -1], [_t(1, 8, 3, 4), _t(8, 1, 1), -1]),
        _site("mul.Tensor", [_t(3, 4, 24), _t(24)], [_t(2, 4, 8), _t(8)], axes=True),
        _site("mul.Tensor", [sliced, sliced]),
        _site("mul.Tensor", [_t(3, 8, 6, 7), _last(_t(3, 8, 6, 7))]),
        _site("div.Tensor", [_t(40, dtype=F64), _t(40, dtype=F64)]),
        _site("sub.Tensor", [_t(6, 48, dtype=I64), _t(48, dtype=I64), 3]),
        _site("where.self", [_t(6, 40) > 0, _t(6, 40), _t(40)]),
        _site("masked_fill.Scalar", [_t(4, 6, 16, dtype=F16), _t(6, 16) > 0, -1.5]),
        _site("copy_", [torch.zeros(5, 48, dtype=BF16), _t(5, 48), False]),
        _site("copy_", [torch.zeros(5, 48, dtype=torch.bool), _t(48, dtype=F16), False]),
    ]


def _transposes() -> list[Site]:
    """Both sides longer than a square, shorter, and odd; as whole vectors and not."""
    found = []
    for to, source in ((F32, F32), (F16, F16), (F64, F64), (U8, U8), (F16, F32), (F32, BF16)):
        wide, odd = _t(2, 72, 12, 10, dtype=source), _t(1, 19, 9, 7, dtype=source)
        found += [
            _site("copy_", *([_last(torch.zeros(x.shape, dtype=to)), x, False] for x in (wide, odd))),
            _site("copy_", [torch.zeros(wide.shape, dtype=to), _last(wide), False]),
        ]
    return [
        *found,
        _site("copy_", *([torch.zeros(n, m), _t(m, n).t(), False] for n, m in ((70, 100), (33, 64)))),
    ]


def _cats() -> list[Site]:
    def inputs(*channels: int, last: bool = False, dtype: torch.dtype = F16) -> list[torch.Tensor]:
        made = [_t(2, c, 4, 6, dtype=dtype) for c in channels]
        return [_last(x) for x in made] if last else made

    return [
        _site("cat", [inputs(8, 40, 3), 1], axes=True),
        _site("cat", [inputs(8, 40, 24, last=True), 1]),
        _site("cat", [inputs(7, 7, dtype=F32), 0], [inputs(1, 1, dtype=F32), 0]),
        _site("cat", [[_t(5, 33), _t(5, 1)[:, :1]], -1]),
    ]


def _reductions() -> list[Site]:
    x, many = _t(3, 16, 6, 10), _t(2, 5000, dtype=F16)
    return [
        _site("sum.dim_IntList", [x, [2, 3], False, None], [_t(1, 3, 5, 7), [2, 3], False, None]),
        _site("sum.dim_IntList", [x, [0, 2, 3], True, None]),
        _site("mean.dim", [_last(x).to(BF16), [2, 3], True, None]),
        _site("mean.dim", [x.to(F64), [1], False, None]),
        _site("amax", [x[:, ::2], [1, 3], False]),
        _site(
            "mean.dim",
            [_t(5, 40, 7, 7, dtype=F16), [2, 3], True, None],
            [_t(1, 3, 5, 5, dtype=F16), [2, 3], True, None],
            axes=True,
        ),
        _site("sum.dim_IntList", [_t(300, 13), [1], False, None]),
        _site("amax", [_t(300, 15, dtype=F64), [1], False]),
        _site("amax", [_t(40, 300, dtype=F16), [0], False]),
        _site("sum.dim_IntList", [many, [1], False, F32], axes=True),
        _site("sum.dim_IntList", [many.view(5000, 2), [0], False, None], axes=True),
        _site("sum.dim_IntList", [_t(123, 457), [], False, None]),
        _site("sum.dim_IntList", [_t(2, 4, 5000, 3)[:, :, :, 0], [0, 2], False, None]),
    ]


def _scans() -> list[Site]:
    return [
        _site("cumsum", [_t(5, 77, dtype=F16), 1, None]),
        _site("cumsum", [_t(3, 9000, dtype=F64), 1, None], axes=True),
        _site("cumsum_", [_t(4, 640, dtype=I64), 1, None]),
        _site("cumsum", [_t(2, 5000, dtype=I64)[:, ::2], 1, None]),
        _site("cumsum", [_t(900, 24, dtype=F64), 0, None], axes=True),
        _site("cumsum_", [_t(3, 300, 5, dtype=I64), 1, None]),
        _site("cumsum", [_t(3, 70, 8, dtype=BF16), 1, None]),
    ]


def _resizes() -> list[Site]:
    x = _t(2, 16, 6, 5)
    found = []
    for image in (x, _last(x), x.to(F16), _last(x.to(F16)), x.to(F64)):
        found += [
            _site("upsample_nearest2d", [image, [12, 10], None, None]),
            _site("upsample_nearest2d", [image, [7, 16], None, 3.2]),
            _site("upsample_bilinear2d", [image, [12, 16], False, None, None]),
            _site("upsample_bilinear2d", [image, [3, 8], True, None, None]),
        ]
    doubled = [_t(2, 3, 5, 16, dtype=F16), [10, 32], None, None]
    return [*found, _site("upsample_nearest2d", doubled, axes=True)]


SITES = _pointwise() + _transposes() + _cats() + _reductions() + _scans() + _resizes()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES, "cuda")


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_blocks_equal_eager(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
