"""The pointwise family against eager: operators, dtypes, broadcasting, strides, in place and out, special values, all half-precision numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from proving import Proof, Site, prove

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
FLOATS = (F32, BF16, F16, F64)


def _t(*sizes: int, dtype: torch.dtype = F32, seed: int = 0) -> torch.Tensor:
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))) * 2).to(dtype)


def _shapes(dtype: torch.dtype) -> list[torch.Tensor]:
    """Rank 4 in several layouts: odd, channels_last, a slice with gaps, a transposed view, one element, an expanded dim."""
    last = _t(2, 5, 7, 3, dtype=dtype).to(memory_format=torch.channels_last)
    return [
        _t(3, 5, 7, 11, dtype=dtype),
        last,
        _t(4, 6, 9, 10, dtype=dtype)[:, 1:4, ::2, 3:],
        _t(3, 4, 5, 33, dtype=dtype).transpose(1, 3),
        _t(1, 1, 1, 1, dtype=dtype),
        _t(3, 1, 5, 7, dtype=dtype).expand(3, 4, 5, 7),
    ]


UNARY: list[tuple[str, list[Any]]] = [
    ("relu", []),
    ("silu", []),
    ("sigmoid", []),
    ("tanh", []),
    ("exp", []),
    ("rsqrt", []),
    ("gelu", ["none"]),
    ("gelu", ["tanh"]),
    ("clamp_min", [0.3]),
    ("clamp", [-0.3, 0.7]),
    ("clamp", [None, 1]),
    ("clamp", [1.0, -1.0]),
    ("hardtanh", [0.0, 6.0]),
    ("pow.Tensor_Scalar", [2]),
    ("pow.Tensor_Scalar", [3.0]),
    ("pow.Tensor_Scalar", [0.5]),
    ("pow.Tensor_Scalar", [-0.5]),
    ("pow.Tensor_Scalar", [-1]),
    ("pow.Tensor_Scalar", [-2]),
    ("pow.Tensor_Scalar", [1]),
    ("pow.Tensor_Scalar", [0]),
]


def _by_kernel(shapes: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Eager has another gelu for contiguous tensors; a card's variants share a layout, so they never mix."""
    return [
        [x for x in shapes if x.is_contiguous() and x.numel() > 1],
        [x for x in shapes if not x.is_contiguous()],
    ]


def _unary() -> list[Site]:
    sites = []
    for name, rest in UNARY:
        for dtype in FLOATS:
            # test_templates_math.py has every number of both half types; gelu of float64 is eager's.
            if (name == "gelu" and dtype is F64) or (name.startswith("pow") and dtype is F16):
                continue
            cheap = dtype in (F32, BF16)
            axes = (name, dtype) in (
                ("relu", F32),
                ("silu", BF16),
                ("gelu", F32),
                ("exp", F16),
                ("tanh", F64),
            )
            shapes = _shapes(dtype) if cheap else _shapes(dtype)[:3]
            for some in _by_kernel(shapes) if name == "gelu" else [shapes]:
                sites.append(
                    Site(f"aten::{name}", tuple((x, *rest) for x in some), "axes" if axes else "default")
                )
    for name, rest in (("relu_", []), ("silu_", []), ("clamp_", [0.0, 1.0]), ("pow_.Scalar", [2.0])):
        strided = _t(6, 5, 8)[:, :, ::2]
        sites.append(
            Site(
                f"aten::{name}",
                tuple((x, *rest) for x in (_t(3, 5, 7), strided, _t(5, 4, 3).transpose(0, 2))),
            )
        )
    sites.append(Site("aten::gelu_", ((_t(3, 5, 7), "none"), (_t(2, 5, 9), "none"))))
    for name, rest in (
        ("tanh.out", []),
        ("clamp_min.out", [0.1]),
        ("hardtanh.out", [-1.0, 1.0]),
        ("pow.Tensor_Scalar_out", [3]),
    ):
        sites.append(Site(f"aten::{name}", ((_t(3, 37), *rest, _t(3, 37)), (_t(8, 6), *rest, _t(6, 8).t()))))
    return sites


def _wide(dtype: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of rank 3 that broadcast in every way."""
    return [
        (_t(3, 5, 37, dtype=dtype), _t(3, 5, 37, dtype=dtype, seed=1)),
        (_t(3, 5, 37, dtype=dtype), _t(1, 5, 1, dtype=dtype)),
        (_t(1, 1, 37, dtype=dtype), _t(3, 5, 1, dtype=dtype)),
        (_t(3, 5, 37, dtype=dtype).transpose(0, 2), _t(37, 5, 3, dtype=dtype)),
        (_t(3, 10, 74, dtype=dtype)[:, ::2, ::2], _t(3, 5, 37, dtype=dtype)),
        (_t(3, 5, 1, dtype=dtype).expand(3, 5, 37), _t(3, 5, 37, dtype=dtype)),
    ]


def _binary() -> list[Site]:
    sites = []
    for dtype in FLOATS:
        for name in ("add", "sub", "mul", "div"):
            alpha = [1] if name in ("add", "sub") else []
            points = "axes" if (name, dtype) in (("add", F32), ("mul", BF16)) else "default"
            sites.append(Site(f"aten::{name}.Tensor", tuple((a, b, *alpha) for a, b in _wide(dtype)), points))
            sites.append(
                Site(f"aten::{name}_.Tensor", tuple((a.contiguous(), b, *alpha) for a, b in _wide(dtype)[:2]))
            )
            for scalar in (0.1, 3, -0.0, 1e30):
                if not (name == "div" and scalar == 0):
                    sites.append(Site(f"aten::{name}.Tensor", ((_t(4, 33, dtype=dtype), scalar, *alpha),)))
        first = torch.tensor(0.3, dtype=dtype)
        sites.append(
            Site("aten::sub.Tensor", ((first, _t(7, 9, dtype=dtype), 1),))
        )  # a 0-dim tensor in front
        sites.append(
            Site("aten::mul.out", ((_t(7, 9, dtype=dtype), _t(9, dtype=dtype), _t(7, 9, dtype=dtype)),))
        )
    for alpha in (2, -0.3):
        sites.append(Site("aten::add.Tensor", tuple((a, b, alpha) for a, b in _wide(F32)[:3])))
        sites.append(
            Site("aten::sub.Tensor", ((_t(64, 64, dtype=BF16), _t(64, 64, dtype=BF16, seed=1), alpha),))
        )
    ints = torch.arange(-60, 60).reshape(3, 5, 8)
    sites += [
        Site("aten::mul.Tensor", ((_t(3, 5, 8), ints), (_t(3, 5, 8), ints[:, :1]))),
        Site("aten::mul.Tensor", ((_t(3, 5, 8, dtype=BF16), ints > 0),)),
        Site(
            "aten::add.Tensor",
            ((_t(3, 5, 8), _t(3, 5, 8, dtype=BF16), 1), (_t(1, 5, 1), _t(3, 5, 8, dtype=BF16), 1)),
        ),
        Site("aten::add.Tensor", ((_t(3, 33, dtype=BF16), _t(3, 33, dtype=F16), 1),)),
        Site("aten::add.Tensor", ((_t(3, 33, dtype=F64), _t(3, 33, dtype=F32), 1),)),
        Site("aten::add.Tensor", ((_t(3, 33, dtype=F64), _t(3, 33, dtype=BF16), 1),)),
        Site("aten::div.Tensor", ((ints, ints.abs() + 1), (ints, ints[:1].abs() + 1))),
        Site("aten::div.Tensor", ((ints.to(torch.int32), 3.0),)),
    ]
    return sites


SITES = _unary() + _binary()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_equals_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
