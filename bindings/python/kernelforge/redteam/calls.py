"""The calls that corpus kernels are written for: operators of every family, in three types, at sizes that fit no vector, block or chunk.

A corpus file names one of these (`// call: add_fp32_odd`) on both targets. The call is made in this process under capture, as a model would make
it, so its card is what a study would have. Sizes are small, since each file is judged on a dozen inputs; only `*_large` and `*_beyond_cache` leave the last cache.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .._place import Place

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
_LARGE_LEAST = (
    128 << 20
)  # bytes of a `*_large` tensor at least; one that is read and one that is written leave any cache of today
_BEYOND_LEAST = (
    64 << 20
)  # bytes of a `*_beyond_cache` tensor at least: allocators take so much from the system each time


class Draws:
    """Tensors of one call, the same for the same name on every machine: drawn on the host, then moved to where the call runs."""

    def __init__(self, name: str, place: Place) -> None:
        self._chance, self._place = torch.Generator(), place
        self._chance.manual_seed(zlib.crc32(name.encode()))

    def normal(
        self, *sizes: int, dtype: torch.dtype = F32, mean: float = 0.0, std: float = 1.0, last: bool = False
    ) -> torch.Tensor:
        """Return normal numbers. last: in memory with the channels last."""
        made = torch.randn(sizes, generator=self._chance, dtype=F32) * std + mean
        made = made.to(self._place.device, dtype)
        return made.to(memory_format=torch.channels_last) if last else made

    def positive(self, *sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
        """Return numbers of [0.5, 1.5), as variances are."""
        return (torch.rand(sizes, generator=self._chance, dtype=F32) + 0.5).to(self._place.device, dtype)

    def integers(self, *sizes: int) -> torch.Tensor:
        """Return integers of 64 bits, whose sums pass 2^53."""
        bits = torch.randint(-(2**62), 2**62, sizes, generator=self._chance)
        return bits.to(self._place.device)

    def mask(self, *sizes: int) -> torch.Tensor:
        """Return truth values."""
        return self.normal(*sizes) > 0

    def empty(self, *sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
        """Return memory that the call overwrites."""
        return torch.zeros(sizes, dtype=dtype, device=self._place.device)

    def beyond(self) -> int:
        """Return how many floats, once read and once written, are a tenth more than the last cache holds: the least for which a kernel has to wait for memory."""
        return max(_BEYOND_LEAST, 55 * _cache_bytes() // 100) // 4

    def large(self) -> int:
        """Return how many floats are more than the last cache holds."""
        return max(_LARGE_LEAST, 2 * _cache_bytes()) // 4 if not self._place.cuda else _LARGE_LEAST // 4


def _cache_bytes() -> int:
    """Return the size of this machine's last cache, 0 where the system does not say."""
    found = 0
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        if text.endswith("K"):
            found = max(found, int(text[:-1]) << 10)
    return found


@dataclass(frozen=True)
class Call:
    """One call. arguments: in schema order."""

    overload: str
    arguments: Callable[[Draws], list[Any]]

    def made(self, name: str, place: Place) -> list[Any]:
        """Return the arguments of the call of this name, drawn anew."""
        return self.arguments(Draws(name, place))


_POOL = ([3, 3], [2, 2], [1, 1], [1, 1], False)


def _layer_norm(d: Draws, rows: int, columns: int, dtype: torch.dtype, mean: float = 0.0) -> list[Any]:
    x = d.normal(rows, columns, dtype=dtype, mean=mean)
    return [x, [columns], d.normal(columns, dtype=dtype, mean=1), d.normal(columns, dtype=dtype), 1e-5]


def _group_norm(d: Draws, n: int, c: int, side: int, groups: int, dtype: torch.dtype) -> list[Any]:
    x = d.normal(n, c, side, side, dtype=dtype, mean=0.5)
    return [
        x,
        d.normal(c, dtype=dtype, mean=1),
        d.normal(c, dtype=dtype),
        n,
        c,
        side * side,
        groups,
        1e-5,
    ]


def _batch_norm(d: Draws, n: int, c: int, side: int, dtype: torch.dtype, last: bool = False) -> list[Any]:
    x = d.normal(n, c, side, side, dtype=dtype, last=last)
    weight, bias = d.normal(c, dtype=dtype, mean=1), d.normal(c, dtype=dtype)
    return [x, weight, bias, d.normal(c, dtype=dtype), d.positive(c, dtype=dtype), False, 0.1, 1e-5]


def _halves(d: Draws, rows: int, columns: int) -> list[Any]:
    both = [d.normal(rows, 2 * columns) for _ in range(2)]
    return [both[0][:, :columns], both[1][:, columns:]]


CALLS: dict[str, Call] = {
    # ---- pointwise: one or two inputs ----------------------------------------------------------------------------------
    "add_fp32_odd": Call("aten::add.Tensor", lambda d: [d.normal(3, 1037, 11), d.normal(3, 1037, 11), 1]),
    "add_fp32_alpha": Call("aten::add.Tensor", lambda d: [d.normal(129, 257), d.normal(129, 257), 0.3]),
    "add_bf16_odd": Call(
        "aten::add.Tensor", lambda d: [d.normal(63, 515, dtype=BF16), d.normal(63, 515, dtype=BF16), 1]
    ),
    "add_fp16_bias": Call(
        "aten::add.Tensor", lambda d: [d.normal(16, 33, 65, dtype=F16), d.normal(65, dtype=F16), 1]
    ),
    "add_int64": Call("aten::add.Tensor", lambda d: [d.integers(65, 511), d.integers(65, 511), 1]),
    "mul_fp32_odd": Call("aten::mul.Tensor", lambda d: [d.normal(257, 129), d.normal(257, 129)]),
    "mul_bf16_channel": Call(
        "aten::mul.Tensor", lambda d: [d.normal(2, 33, 17, 13, dtype=BF16), d.normal(33, 1, 1, dtype=BF16)]
    ),
    "mul_fp32_strided": Call("aten::mul.Tensor", lambda d: _halves(d, 129, 131)),
    "relu_fp32_odd": Call("aten::relu", lambda d: [d.normal(7, 11, 1001)]),
    "relu_fp16_odd": Call("aten::relu", lambda d: [d.normal(33, 1023, dtype=F16)]),
    "relu_bf16_inplace": Call("aten::relu_", lambda d: [d.normal(5, 7, 31, 33, dtype=BF16)]),
    "relu_fp32_beyond_cache": Call("aten::relu", lambda d: [d.normal(d.beyond())]),
    "relu_fp32_large": Call("aten::relu", lambda d: [d.normal(d.large())]),
    "silu_fp32_odd": Call("aten::silu", lambda d: [d.normal(3, 67, 257, std=3)]),
    "silu_bf16_odd": Call("aten::silu", lambda d: [d.normal(3, 67, 257, dtype=BF16, std=3)]),
    "silu_fp16_odd": Call("aten::silu", lambda d: [d.normal(31, 1001, dtype=F16, std=3)]),
    "gelu_fp32_odd": Call("aten::gelu", lambda d: [d.normal(31, 1001, std=2), "none"]),
    "gelu_bf16_odd": Call("aten::gelu", lambda d: [d.normal(31, 1001, dtype=BF16, std=2), "none"]),
    "gelu_fp16_tanh": Call("aten::gelu", lambda d: [d.normal(31, 1001, dtype=F16, std=2), "tanh"]),
    "where_fp32_odd": Call(
        "aten::where.self", lambda d: [d.mask(65, 511), d.normal(65, 511), d.normal(65, 511)]
    ),
    # ---- moves ----------------------------------------------------------------------------------------------------------
    "copy_fp32_transposed": Call("aten::copy_", lambda d: [d.empty(131, 259), d.normal(259, 131).t(), False]),
    "copy_fp32_to_bf16": Call(
        "aten::copy_", lambda d: [d.empty(61, 1003, dtype=BF16), d.normal(61, 1003), False]
    ),
    "copy_fp16_heads": Call(
        "aten::copy_",
        lambda d: [
            d.empty(2, 5, 33, 63, dtype=F16),
            d.normal(2, 33, 5, 63, dtype=F16).transpose(1, 2),
            False,
        ],
    ),
    "cat_fp32_channels": Call(
        "aten::cat", lambda d: [[d.normal(3, 5, 17, 13), d.normal(3, 7, 17, 13), d.normal(3, 1, 17, 13)], 1]
    ),
    "cat_bf16_last": Call(
        "aten::cat", lambda d: [[d.normal(129, 31, dtype=BF16), d.normal(129, 66, dtype=BF16)], 1]
    ),
    "nearest_fp32": Call(
        "aten::upsample_nearest2d", lambda d: [d.normal(2, 7, 13, 17), [26, 51], None, None]
    ),
    "nearest_bf16": Call(
        "aten::upsample_nearest2d", lambda d: [d.normal(2, 7, 13, 17, dtype=BF16), [26, 34], None, None]
    ),
    # ---- rows: sums, maxima, softmax, scans ---------------------------------------------------------------------------
    "sum_fp32_rows": Call("aten::sum.dim_IntList", lambda d: [d.normal(67, 2049), [1], False, None]),
    "sum_bf16_rows": Call(
        "aten::sum.dim_IntList", lambda d: [d.normal(33, 4099, dtype=BF16, mean=0.5), [1], False, None]
    ),
    "sum_fp16_columns": Call(
        "aten::sum.dim_IntList", lambda d: [d.normal(1025, 67, dtype=F16, mean=0.25), [0], False, None]
    ),
    "sum_fp32_all": Call("aten::sum.dim_IntList", lambda d: [d.normal(100_003, mean=0.1), [], False, None]),
    "sum_fp32_zero_mean": Call("aten::sum.dim_IntList", lambda d: [d.normal(100_003), [], False, None]),
    "mean_fp32_planes": Call("aten::mean.dim", lambda d: [d.normal(3, 37, 7, 7), [-1, -2], True, None]),
    "mean_bf16_planes": Call(
        "aten::mean.dim", lambda d: [d.normal(4, 128, 9, 9, dtype=BF16, mean=1), [-1, -2], True, None]
    ),
    "mean_bf16_rows": Call(
        "aten::mean.dim", lambda d: [d.normal(65, 1027, dtype=BF16, mean=1), [1], False, None]
    ),
    "amax_fp32_rows": Call("aten::amax", lambda d: [d.normal(65, 1027), [1], False]),
    "softmax_fp32": Call("aten::_softmax", lambda d: [d.normal(67, 1027, std=3), -1, False]),
    "softmax_bf16": Call("aten::_softmax", lambda d: [d.normal(129, 259, dtype=BF16, std=3), -1, False]),
    "softmax_fp16_short": Call("aten::_softmax", lambda d: [d.normal(515, 33, dtype=F16, std=3), -1, False]),
    "log_softmax_fp32": Call("aten::_log_softmax", lambda d: [d.normal(67, 515, std=3), -1, False]),
    "cumsum_fp32": Call("aten::cumsum", lambda d: [d.normal(37, 1025), 1, None]),
    "cumsum_fp16": Call("aten::cumsum", lambda d: [d.normal(37, 259, dtype=F16), 1, None]),
    "cumsum_int64": Call("aten::cumsum", lambda d: [d.integers(37, 1025), 1, None]),
    "topk_fp32": Call("aten::topk", lambda d: [d.normal(65, 77), 8, 1, True, True]),
    "topk_fp32_ties": Call("aten::topk", lambda d: [d.normal(65, 77, std=2).round(), 8, 1, True, True]),
    "topk_bf16_smallest": Call("aten::topk", lambda d: [d.normal(33, 259, dtype=BF16), 5, 1, False, True]),
    # ---- norms ----------------------------------------------------------------------------------------------------------
    "layer_norm_fp32": Call("aten::native_layer_norm", lambda d: _layer_norm(d, 67, 771, F32)),
    "layer_norm_fp32_offset": Call("aten::native_layer_norm", lambda d: _layer_norm(d, 33, 515, F32, 1000.0)),
    "layer_norm_bf16": Call("aten::native_layer_norm", lambda d: _layer_norm(d, 65, 515, BF16, 0.5)),
    "group_norm_fp32": Call("aten::native_group_norm", lambda d: _group_norm(d, 2, 12, 11, 4, F32)),
    "group_norm_bf16": Call("aten::native_group_norm", lambda d: _group_norm(d, 3, 24, 9, 8, BF16)),
    "batch_norm_fp32": Call("aten::native_batch_norm", lambda d: _batch_norm(d, 3, 19, 13, F32)),
    "batch_norm_fp32_last": Call(
        "aten::native_batch_norm", lambda d: _batch_norm(d, 3, 19, 13, F32, last=True)
    ),
    # ---- windows --------------------------------------------------------------------------------------------------------
    "max_pool_fp32": Call("aten::max_pool2d_with_indices", lambda d: [d.normal(2, 9, 27, 31), *_POOL]),
    "max_pool_bf16_last": Call(
        "aten::max_pool2d_with_indices", lambda d: [d.normal(2, 17, 15, 13, dtype=BF16, last=True), *_POOL]
    ),
    "avg_pool_fp32_border": Call(
        "aten::avg_pool2d",
        lambda d: [d.normal(2, 9, 27, 31, mean=1), [3, 3], [2, 2], [1, 1], False, False, None],
    ),
    "avg_pool_fp16": Call(
        "aten::avg_pool2d",
        lambda d: [d.normal(2, 9, 28, 32, dtype=F16), [2, 2], [2, 2], [0, 0], False, True, None],
    ),
    "avg_pool_fp32_window": Call(
        "aten::avg_pool2d", lambda d: [d.normal(2, 9, 28, 32), [2, 2], [2, 2], [0, 0], False, True, None]
    ),
    "adaptive_pool_fp32": Call("aten::_adaptive_avg_pool2d", lambda d: [d.normal(3, 11, 13, 17), [5, 7]]),
    "bilinear_fp32": Call(
        "aten::upsample_bilinear2d", lambda d: [d.normal(2, 7, 13, 17), [27, 32], False, None, None]
    ),
    "bilinear_fp32_wide": Call(
        "aten::upsample_bilinear2d", lambda d: [d.normal(1, 4, 1, 5008), [1, 10032], False, None, None]
    ),
}
