"""Upsampling, nearest and bilinear: NCHW, NHWC, sliced inputs, given and derived scales, growing and shrinking."""

from __future__ import annotations

import pytest
import torch

from proving import Proof, Site, prove

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def _t(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))) * 2).to(dtype)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


TO = (
    ([14, 18], None, None),
    ([13, 31], None, None),
    ([5, 4], None, None),
    ([18, 24], 2.6, 2.7),
    ([7, 9], None, None),
    ([14, 18], 2.0, 2.0),
)


def _sites() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, F16, F64):
        for i, (size, h, w) in enumerate(TO if dtype is F32 else TO[1:4]):
            plain = (_t(2, 3, 7, 9, dtype=dtype), _t(2, 6, 14, 9, dtype=dtype)[:, ::2, ::2])
            last = (_last(_t(2, 37, 7, 9, dtype=dtype)), _last(_t(1, 5, 7, 9, dtype=dtype)))
            for inputs in (plain, last):
                points = "axes" if dtype in (F32, BF16) and i == 1 else "default"
                sites.append(Site("aten::upsample_nearest2d", tuple((x, size, h, w) for x in inputs), points))
                for align in (False, True):
                    sites.append(
                        Site(
                            "aten::upsample_bilinear2d", tuple((x, size, align, h, w) for x in inputs), points
                        )
                    )
    # Beyond 128 of H + W eager takes half types through float, but for dense pixels of four channels: NaN keep their bits or not.
    for dtype in (BF16, F16):
        wide = (_t(2, 3, 40, 50, dtype=dtype), _t(2, 6, 80, 50, dtype=dtype)[:, ::2, ::2])
        few, many = _last(_t(1, 3, 40, 50, dtype=dtype)), _last(_t(1, 4, 40, 50, dtype=dtype))
        for inputs in (wide, (few,), (many, _last(_t(1, 8, 40, 50, dtype=dtype))[:, ::2])):
            sites.append(
                Site("aten::upsample_nearest2d", tuple((x, [80, 100], None, None) for x in inputs), "axes")
            )
    sites.append(
        Site("aten::upsample_nearest2d", ((_t(1, 2, 3, 700), [6, 1401], None, None),), "axes")
    )  # many blocks
    for dtype in (F32, BF16):  # of columns that are just doubled
        doubled = _t(1, 2, 3, 700, dtype=dtype)
        sites.append(Site("aten::upsample_nearest2d", ((doubled, [6, 1400], None, None),), "axes"))
    sites.append(
        Site("aten::upsample_bilinear2d", ((_t(1, 2, 3, 700), [6, 1401], False, None, None),), "axes")
    )
    sites.append(
        Site("aten::upsample_bilinear2d", ((_t(1, 2, 9, 2000), [3, 300], False, None, None),))
    )  # wide gaps
    sites.append(
        Site("aten::upsample_nearest2d.out", ((_t(2, 3, 7, 9), [13, 31], None, None, _t(2, 3, 13, 31)),))
    )
    sites.append(
        Site(
            "aten::upsample_bilinear2d.out",
            ((_t(2, 3, 7, 9), [13, 31], False, None, None, _t(2, 3, 13, 31)),),
        )
    )
    sites.append(
        Site(
            "aten::upsample_nearest2d",
            ((_t(2, 3, 7, 9).mul(20).abs().to(torch.uint8), [13, 31], None, None),),
        )
    )
    return sites


SITES = _sites()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
