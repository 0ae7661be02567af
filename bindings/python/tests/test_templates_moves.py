"""Families that move, select and count elements: copy_, neg, where, masked_fill, integer arithmetic. Every bit as eager."""

from __future__ import annotations

import math

import pytest
import torch

from proving import Proof, Site, prove

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I64, I32, I16, I8, U8, BOOL = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool


def _t(*sizes: int, dtype: torch.dtype = F32, seed: int = 0) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed + sum(sizes))
    if dtype is BOOL:
        return torch.rand(sizes, generator=chance) < 0.4
    if not dtype.is_floating_point:
        return torch.randint(0, 100, sizes, generator=chance).to(dtype)
    return (torch.randn(sizes, generator=chance) * 2).to(dtype)


def _copies() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, F64, U8):
        sites.append(
            Site(
                "aten::copy_",
                (
                    (_t(3, 5, 37, dtype=dtype), _t(3, 5, 37, dtype=dtype, seed=1), False),
                    (_t(3, 5, 37, dtype=dtype), _t(37, 5, 3, dtype=dtype).transpose(0, 2), False),
                    (_t(3, 5, 37, dtype=dtype), _t(5, 1, dtype=dtype)[None], False),
                    (_t(37, 4, 40, dtype=dtype).permute(1, 2, 0), _t(4, 40, 37, dtype=dtype), False),
                    (_t(6, 10, 74, dtype=dtype)[::2, ::2, ::2], _t(3, 5, 37, dtype=dtype), False),
                ),
                "axes" if dtype in (F32, BF16) else "default",
            )
        )
    both = [
        (F32, BF16), (BF16, F32), (F32, F16), (F16, F32), (F64, F32), (F32, F64), (F16, BF16), (F64, F16),
        (I64, F32), (BOOL, F32), (I32, BF16), (U8, F16), (I8, F64), (I64, I32), (I32, I64), (U8, I8), (I16, BOOL), (BOOL, I64), (F32, BOOL), (BF16, BOOL),
    ]  # fmt: skip
    for source, target in both:
        variants = (
            (_t(3, 5, 37, dtype=target), _t(3, 5, 37, dtype=source, seed=1), False),
            (_t(3, 5, 37, dtype=target), _t(37, 5, 3, dtype=source).transpose(0, 2), False),
            (_t(3, 10, 37, dtype=target)[:, ::2], _t(5, 1, dtype=source).expand(3, 5, 37), False),
        )
        sites.append(Site("aten::copy_", variants, "axes" if (source, target) == (F32, BF16) else "default"))
    # Beyond the second cache: whole lines past it, where rows are aligned, and where they are not.
    for dtype, n in ((F32, 736), (I64, 520)):
        even, odd = _t(800, n, dtype=dtype).t(), _t(801, n + 3, dtype=dtype).t()
        large = tuple((torch.empty(x.shape, dtype=dtype), x, False) for x in (even, odd))
        sites.append(Site("aten::copy_", large, "axes" if dtype is F32 else "default", families=2))
    return sites


def _selections() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, F64, I64, BOOL):
        a, b, mask = _t(3, 5, 37, dtype=dtype), _t(3, 5, 37, dtype=dtype, seed=1), _t(3, 5, 37, dtype=BOOL)
        wheres = (
            (mask, a, b),
            (mask[:1, :, :1], a, b),
            (mask, a[:, :1], _t(37, 5, 3, dtype=dtype).transpose(0, 2)),
            (mask.transpose(0, 2).contiguous().transpose(0, 2), a, b[:1, :1, :1].expand(3, 5, 37)),
        )
        sites.append(Site("aten::where.self", wheres, "axes" if dtype is F32 else "default"))
        sites.append(Site("aten::where.self_out", ((mask, a, b, torch.empty_like(a)),)))
        sites.append(Site("aten::where.self", ((mask, a, torch.tensor(1, dtype=dtype)),)))
        value = {BOOL: True, I64: -7}.get(dtype, -math.inf)
        sites.append(
            Site("aten::masked_fill_.Scalar", ((a.clone(), mask, value), (a.clone(), mask[:, :1], value)))
        )
        sites.append(Site("aten::masked_fill.Scalar", ((a, mask[:, :1], value), (a, mask[:1, :1], value))))
        sites.append(Site("aten::masked_fill.Tensor", ((a, mask, torch.tensor(3).to(dtype)),)))
        sites.append(
            Site(
                "aten::masked_fill_.Tensor",
                ((a.clone().transpose(0, 1), mask.transpose(0, 1), torch.tensor(3).to(dtype)),),
            )
        )
    sites.append(Site("aten::where.self", ((_t(4, 33, dtype=BOOL), torch.tensor(0.1), _t(4, 33)),)))
    sites.append(
        Site(
            "aten::where.self",
            ((_t(4, 33, dtype=BOOL), _t(4, 33, dtype=BF16), torch.tensor(-math.inf, dtype=BF16)),),
        )
    )
    sites.append(Site("aten::masked_fill_.Scalar", ((_t(4, 33, dtype=F16), _t(4, 33, dtype=BOOL), 0.1),)))
    sites.append(
        Site("aten::masked_fill_.Scalar", ((_t(4, 33, dtype=BF16), _t(4, 33, dtype=BOOL), math.nan),))
    )
    return sites


def _counts() -> list[Site]:
    sites = []
    for dtype in (F32, F16, BF16, F64, I64, I8):
        x = _t(3, 5, 37, dtype=dtype)
        sites.append(Site("aten::neg", ((x,), (x.transpose(0, 2),), (x[:, ::2, ::3],))))
    sites.append(Site("aten::neg_", ((_t(3, 5, 37),), (_t(4, 5, 8)[..., ::2],))))
    for dtype in (I64, I32, I8, U8):
        a, b = _t(3, 5, 37, dtype=dtype), _t(3, 5, 37, dtype=dtype, seed=1)
        sites.append(Site("aten::add.Tensor", ((a, b, 1), (a, b[:, :1], 1))))
        sites.append(Site("aten::sub.Tensor", ((a, b, 3),)))
        sites.append(Site("aten::mul.Tensor", ((a, b), (a.transpose(0, 2), b.transpose(0, 2)))))
        sites.append(Site("aten::add_.Tensor", ((a.clone(), 200, 1),)))
    sites.append(Site("aten::mul.Tensor", ((_t(3, 37, dtype=I64), _t(3, 37, dtype=BOOL)),)))
    sites.append(Site("aten::sub.Tensor", ((_t(3, 37, dtype=I32), _t(3, 37, dtype=I64), 1),)))
    sites.append(Site("aten::sub.Tensor", ((5, _t(3, 37, dtype=I16), 1),)))
    return sites


def _cats() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, U8, I64):
        a, b, c = (_t(2, n, 6, 7, dtype=dtype) for n in (3, 1, 5))
        last = [x.to(memory_format=torch.channels_last) for x in (a, b, c)]
        sites.append(
            Site(
                "aten::cat",
                (
                    ([a, b, c], 1),
                    (last, 1),
                    ([a[..., ::2], b.transpose(2, 3)[:, :, :6, :4], last[2][..., :4]], 1),
                ),
                "axes" if dtype is F32 else "default",
            )
        )
        sites.append(Site("aten::cat", (([a, a], 0), (last[:1] * 2, 0))))
        sites.append(Site("aten::cat", (([a, a, a, a, a], -1), ([a.transpose(1, 3)] * 5, -1))))
        sites.append(
            Site(
                "aten::cat.out",
                (
                    ([a, b], 1, _t(2, 4, 6, 7, dtype=dtype)),
                    ([a, b], 1, _t(2, 7, 6, 4, dtype=dtype).transpose(1, 3)),
                ),
            )
        )
    sites.append(Site("aten::cat", (([_t(5), _t(1), _t(300)], 0),)))
    return sites


SITES = _copies() + _selections() + _counts() + _cats()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_bit_for_bit(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
