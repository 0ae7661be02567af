"""The calls whose full cost tables bench/cost_tables.py records: one of each kind of family, sized for the machine that judges them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[
    nn.Module, tuple[Any, ...], str
]  # a model that makes one call, its inputs, the overload that is meant


class One(nn.Module):
    """One operator as a model."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Any) -> Any:
        return self.call(*inputs)


def made(overload: str, call: Callable[..., Any], *inputs: torch.Tensor) -> Made:
    return One(call).eval(), inputs, overload


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _max_pool(x: torch.Tensor) -> Made:
    aten = torch.ops.aten.max_pool2d_with_indices
    return made("aten::max_pool2d_with_indices", lambda x: aten(x, [3, 3], [2, 2], [1, 1]), x)


def _softmax(x: torch.Tensor, dim: int) -> Made:
    return made("aten::_softmax", lambda x: torch.softmax(x, dim), x)


def _batch_norm(x: torch.Tensor) -> Made:
    c, f32 = x.shape[1], torch.float32
    mean, variance, weight, bias = (torch.rand(c, device=x.device, dtype=f32) + 0.5 for _ in range(4))
    aten = torch.ops.aten.native_batch_norm
    return made(
        "aten::native_batch_norm",
        lambda *a: aten(a[0], a[1], a[2], a[3], a[4], False, 0.1, 1e-5),
        x,
        weight,
        bias,
        mean,
        variance,
    )


def host() -> dict[str, Callable[[], Made]]:
    """Return name -> model: calls of 1 to 10 ms on two cores."""
    t = torch.randn
    return {
        "max pool": lambda: _max_pool(t(4, 64, 112, 112)),
        "max pool, channels last": lambda: _max_pool(_last(t(4, 64, 112, 112))),
        "transpose": lambda: made("aten::copy_", lambda x: x.t().contiguous(), t(1536, 1536)),
        "batch norm": lambda: _batch_norm(t(8, 128, 56, 56)),
        "softmax": lambda: _softmax(t(512, 2048), -1),
        "softmax of columns": lambda: _softmax(t(2048, 512), 0),
        "add a bias": lambda: made("aten::add.Tensor", torch.add, t(2048, 1024), t(1024)),
        "sum of columns": lambda: made("aten::sum.dim_IntList", lambda x: x.sum(0), t(4096, 512)),
    }


def cuda() -> dict[str, Callable[[], Made]]:
    """Return name -> model: calls of 20 to 500 us on a large GPU, small spaces first."""

    def t(*sizes: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", dtype=torch.float32).to(dtype)

    bf16, f32 = torch.bfloat16, torch.float32
    return {
        "softmax": lambda: _softmax(t(8192, 4096, dtype=bf16), -1),
        "softmax of columns": lambda: _softmax(t(16, 1024, 2048, dtype=bf16), 1),
        "batch norm": lambda: _batch_norm(t(64, 256, 56, 56)),
        "sum of rows": lambda: made("aten::sum.dim_IntList", lambda x: x.sum(1), t(65536, 1024)),
        "bilinear": lambda: made(
            "aten::upsample_bilinear2d",
            lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
            t(32, 256, 64, 64),
        ),
        "transpose": lambda: made("aten::copy_", lambda x: x.t().contiguous(), t(8192, 8192)),
        "add a bias": lambda: made("aten::add.Tensor", torch.add, t(32768, 1024), t(1024)),
        "group norm": lambda: made(
            "aten::native_group_norm",
            lambda x, w, b: nn.functional.group_norm(x, 32, w, b, 1e-6),
            t(1, 512, 128, 128, dtype=bf16),
            t(512, dtype=bf16),
            t(512, dtype=bf16),
        ),
        "sum of columns": lambda: made(
            "aten::sum.dim_IntList", lambda x: x.sum(0), t(65536, 1024, dtype=f32)
        ),
    }
