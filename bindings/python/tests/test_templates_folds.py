"""Families that fold elements: sum, mean and amax over any dims, cumsum."""

from __future__ import annotations

import pytest
import torch

from proving import Proof, Site, prove

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def _t(*sizes: int, dtype: torch.dtype = F32, seed: int = 0) -> torch.Tensor:
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))) * 2).to(dtype)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


DIMS = ([3], [2, 3], [0, 2, 3], [1], [-1, 0], [0], [], [1, 2])


def _reductions() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, F16, F64):
        for name in ("sum", "mean", "amax"):
            overload = {"sum": "aten::sum.dim_IntList", "mean": "aten::mean.dim", "amax": "aten::amax"}[name]
            rest = [] if name == "amax" else [None]
            for i, dims in enumerate(DIMS if dtype is F32 else ([2, 3], [1])):
                keep = bool(i % 2)
                inputs = [
                    _t(3, 5, 7, 53, dtype=dtype),
                    _last(_t(2, 70, 5, 6, dtype=dtype)),
                    _t(4, 9, 8, 20, dtype=dtype)[::2, 1:, :, ::3],
                ]
                inputs += [_t(1, 3, 1, 1, dtype=dtype), _t(6, 4, 5, 3, dtype=dtype).permute(3, 1, 0, 2)]
                axes = (name, dtype) in (("sum", F32), ("mean", BF16)) and dims in ([2, 3], [1])
                sites.append(
                    Site(
                        overload,
                        tuple((x, dims, keep, *rest) for x in inputs),
                        "axes" if axes else "default",
                        2 if dims else 1,
                    )
                )
        # Long: many flushes, few outputs, elements split into parts.
        long = (_t(2, 40000, dtype=dtype), _t(40000, 2, dtype=dtype).t())
        sites.append(
            Site(
                "aten::sum.dim_IntList",
                tuple((x, [1], False, None) for x in long),
                "axes" if dtype is F32 else "default",
            )
        )
        sites.append(
            Site(
                "aten::mean.dim",
                tuple(
                    (x, None, False, None) for x in (_t(300, 257, dtype=dtype), _t(257, 300, dtype=dtype).t())
                ),
            )
        )
        sites.append(
            Site(
                "aten::amax",
                tuple((x, [0], True) for x in (_t(3000, 24, dtype=dtype), _t(24, 3000, dtype=dtype).t())),
            )
        )
    sites.append(
        Site(
            "aten::sum.dim_IntList",
            tuple((x.abs(), [1], False, None) for x in (_t(3, 70000), _t(70000, 5).t())),
        )
    )  # no cancelling
    sites.append(Site("aten::sum.dim_IntList", ((_t(7, 33, dtype=BF16), [1], False, F32),)))
    sites.append(Site("aten::sum.IntList_out", ((_t(7, 33), [1], False, None, _t(7)),)))
    sites.append(Site("aten::mean.out", ((_t(7, 33), [0], True, None, _t(1, 33)),)))
    sites.append(Site("aten::amax.out", ((_t(5, 7, 33), [1], False, _t(33, 5).t()),)))
    return sites


def _cumsums() -> list[Site]:
    sites = []
    for dtype in (F32, BF16, F16, F64):
        for dim in (1, -1, 0):
            inputs = (
                _t(3, 5, 131, dtype=dtype),
                _t(7, 6, 40, dtype=dtype).permute(1, 2, 0),
                _t(3, 10, 26, dtype=dtype)[:, ::2, ::2],
            )
            axes = dtype in (F32, BF16) and dim == -1
            sites.append(
                Site(
                    "aten::cumsum",
                    tuple((x, dim, None) for x in inputs),
                    "axes" if axes else "default",
                    2 if dim else 1,
                )
            )
    sites.append(
        Site(
            "aten::cumsum_",
            ((_t(3, 5, 131), -1, None), (_t(3, 131, 5).transpose(1, 2), -1, None)),
            families=2,
        )
    )
    sites.append(Site("aten::cumsum.out", ((_t(3, 131), 1, None, _t(131, 3).t()),)))
    sites.append(
        Site(
            "aten::cumsum",
            ((_t(3, 131, dtype=BF16), 1, F32), (_t(131, 3, dtype=BF16).t(), 1, F32)),
            families=2,
        )
    )
    for dtype in (torch.int64, torch.int32, torch.bool):
        x = torch.arange(3 * 131).reshape(3, 131).remainder(7).to(dtype)
        sites.append(Site("aten::cumsum", ((x, 1, None), (x.t().contiguous().t(), 1, None)), families=2))
    return sites


SITES = _reductions() + _cumsums()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
