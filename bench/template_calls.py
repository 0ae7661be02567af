"""The calls that bench/templates.py times: the large ones of ResNet-50, of a VAE's decoder and of transformers, and hard cases of each family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelforge import _ext


def timed() -> dict[str, tuple[str, Callable[[], list[Any]]]]:
    """Return name -> (overload, arguments): the large calls of ResNet-50, of a VAE's decoder and of transformers, and hard cases of each family."""

    def t(*sizes: int, dtype: torch.dtype = torch.float16, last: bool = False) -> torch.Tensor:
        made = torch.randn(sizes, device="cuda", dtype=torch.float32).to(dtype)
        return made.to(memory_format=torch.channels_last) if last else made

    f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
    pool = ([3, 3], [2, 2], [1, 1], [1, 1], False)

    def normed(n: int, dtype: torch.dtype) -> list[Any]:
        return [t(n, dtype=dtype), t(n, dtype=dtype)]

    def batch_norm(x: torch.Tensor, dtype: torch.dtype) -> list[Any]:
        c = x.shape[1]
        mean, variance = torch.zeros(c, device="cuda", dtype=dtype), torch.ones(c, device="cuda", dtype=dtype)
        return [x, *normed(c, dtype), mean, variance, False, 0.1, 1e-5]

    def group_norm(n: int, c: int, side: int, dtype: torch.dtype = bf16) -> list[Any]:
        return [t(n, c, side, side, dtype=dtype), *normed(c, dtype), n, c, side * side, 32, 1e-6]

    def lines(c: int, side: int) -> tuple[str, Callable[[], list[Any]]]:
        """A group norm of channels_last: the composite, or from torch 2.14 on its leaf."""

        def x() -> torch.Tensor:
            return t(1, c, side, side, dtype=bf16, last=True)

        if "aten::group_norm" not in {row["overload"] for row in _ext.load().op_table()}:
            plane = side * side
            return "aten::native_group_norm", lambda: [x(), *normed(c, bf16), 1, c, plane, 32, 1e-6]
        return "aten::group_norm", lambda: [x(), 32, *normed(c, bf16), 1e-6, True]

    def softmax(dim: int, *sizes: int, dtype: torch.dtype = bf16) -> tuple[str, Callable[[], list[Any]]]:
        return "aten::_softmax", lambda: [t(*sizes, dtype=dtype), dim, False]

    def layer_norm(*sizes: int, dtype: torch.dtype = bf16) -> tuple[str, Callable[[], list[Any]]]:
        n = sizes[-1]
        return "aten::native_layer_norm", lambda: [t(*sizes, dtype=dtype), [n], *normed(n, dtype), 1e-5]

    def rms_norm(*sizes: int, dtype: torch.dtype = bf16) -> tuple[str, Callable[[], list[Any]]]:
        n = sizes[-1]
        return "aten::_fused_rms_norm", lambda: [t(*sizes, dtype=dtype), [n], t(n, dtype=dtype), 1e-6]

    return {
        "resnet relu 256x64x112": ("aten::relu_", lambda: [t(256, 64, 112, 112, last=True)]),
        "resnet relu 256x512x7": ("aten::relu_", lambda: [t(256, 512, 7, 7, last=True)]),
        "resnet add 256x256x56": (
            "aten::add_.Tensor",
            lambda: [t(256, 256, 56, 56, last=True), t(256, 256, 56, 56, last=True), 1],
        ),
        "resnet batch norm 256x64x112": (
            "aten::cudnn_batch_norm",
            lambda: batch_norm(t(256, 64, 112, 112, last=True), f32),
        ),
        "resnet batch norm 256x256x56, native": (
            "aten::native_batch_norm",
            lambda: batch_norm(t(256, 256, 56, 56, last=True), f16),
        ),
        "resnet max pool": (
            "aten::max_pool2d_with_indices",
            lambda: [t(256, 64, 112, 112, last=True), *pool],
        ),
        "resnet max pool, values": ("aten::max_pool2d", lambda: [t(256, 64, 112, 112, last=True), *pool]),
        "resnet mean": ("aten::mean.dim", lambda: [t(256, 2048, 7, 7, last=True), [-1, -2], True, None]),
        "vae silu 128x1024": ("aten::silu", lambda: [t(1, 128, 1024, 1024, dtype=bf16)]),
        "vae silu 512x128": ("aten::silu", lambda: [t(1, 512, 128, 128, dtype=bf16)]),
        "vae add 256x512": (
            "aten::add.Tensor",
            lambda: [t(1, 256, 512, 512, dtype=bf16), t(1, 256, 512, 512, dtype=bf16), 1],
        ),
        "vae group norm 128x1024": ("aten::native_group_norm", lambda: group_norm(1, 128, 1024)),
        "vae group norm 512x128": ("aten::native_group_norm", lambda: group_norm(1, 512, 128)),
        "vae group norm 2x512x128": ("aten::native_group_norm", lambda: group_norm(2, 512, 128)),
        "vae group norm 128x1024, channels last": lines(128, 1024),
        "vae group norm 512x128, channels last": lines(512, 128),
        "vae group norm 256x512": ("aten::native_group_norm", lambda: group_norm(1, 256, 512)),
        "group norm 128x1024 float32": ("aten::native_group_norm", lambda: group_norm(1, 128, 1024, f32)),
        "group norm 2x512x128 float32": ("aten::native_group_norm", lambda: group_norm(2, 512, 128, f32)),
        "vae nearest 256x512": (
            "aten::upsample_nearest2d",
            lambda: [t(1, 256, 512, 512, dtype=bf16), [1024, 1024], None, None],
        ),
        "layer norm 8192x4096": (
            "aten::native_layer_norm",
            lambda: [t(8192, 4096, dtype=bf16), [4096], *normed(4096, bf16), 1e-5],
        ),
        "layer norm 65536x768": (
            "aten::native_layer_norm",
            lambda: [t(65536, 768), [768], *normed(768, f16), 1e-5],
        ),
        "layer norm 8666x1536": layer_norm(8666, 1536),
        "layer norm 4096x4096": layer_norm(4096, 4096),
        "layer norm 4096x4096 float32": layer_norm(4096, 4096, dtype=f32),
        "layer norm 32768x768": layer_norm(32768, 768),
        "layer norm 2048x2048": layer_norm(2048, 2048),
        "rms norm 8666x1536": rms_norm(8666, 1536),
        "rms norm 4096x4096": rms_norm(4096, 4096),
        "rms norm 4096x4096 float32": rms_norm(4096, 4096, dtype=f32),
        "rms norm 32768x768": rms_norm(32768, 768),
        "rms norm 2048x2048": rms_norm(2048, 2048),
        "softmax 4096x8192": softmax(-1, 4096, 8192),
        "softmax 4096x8192 float32": softmax(-1, 4096, 8192, dtype=f32),
        "softmax 256x32768": softmax(-1, 256, 32768),
        "softmax 64x262144": softmax(-1, 64, 262144),
        "softmax 64x262144 float32": softmax(-1, 64, 262144, dtype=f32),
        "softmax 64x151936": softmax(-1, 64, 151936),
        "softmax dim 1": softmax(1, 2, 16, 1024, 1024),
        "softmax dim 1 float32": softmax(1, 2, 16, 1024, 1024, dtype=f32),
        "softmax 8192x4096": ("aten::_softmax", lambda: [t(8192, 4096, dtype=bf16), -1, False]),
        "softmax 65536x512": ("aten::_softmax", lambda: [t(65536, 512), -1, False]),
        "softmax 4096x65536": ("aten::_softmax", lambda: [t(4096, 65536, dtype=f32), -1, False]),
        "log softmax 2048x50257": ("aten::_log_softmax", lambda: [t(2048, 50257, dtype=f32), -1, False]),
        "gelu 8192x14336": ("aten::gelu", lambda: [t(8192, 14336, dtype=bf16), "none"]),
        "gelu tanh 8192x14336": ("aten::gelu", lambda: [t(8192, 14336, dtype=bf16), "tanh"]),
        "gelu 4096x4096 float32": ("aten::gelu", lambda: [t(4096, 4096, dtype=f32), "none"]),
        "tanh 8192x8192": ("aten::tanh", lambda: [t(8192, 8192)]),
        "sigmoid 8192x8192": ("aten::sigmoid", lambda: [t(8192, 8192, dtype=bf16)]),
        "add 64M float32": ("aten::add.Tensor", lambda: [t(1 << 26, dtype=f32), t(1 << 26, dtype=f32), 1]),
        "add 1M float32": ("aten::add.Tensor", lambda: [t(1 << 20, dtype=f32), t(1 << 20, dtype=f32), 1]),
        "add bias 65536x1024": ("aten::add.Tensor", lambda: [t(65536, 1024), t(1024), 1]),
        "mul channel 32x256x64": ("aten::mul.Tensor", lambda: [t(32, 256, 64, 64), t(256, 1, 1)]),
        "mul 8192 of 16384 columns": (
            "aten::mul.Tensor",
            lambda: [t(8192, 16384)[:, :8192], t(8192, 16384)[:, 8192:]],
        ),
        "mul by a number": ("aten::mul.Tensor", lambda: [t(8192, 8192, dtype=bf16), 0.125]),
        "div float64": (
            "aten::div.Tensor",
            lambda: [t(1 << 24, dtype=torch.float64), t(1 << 24, dtype=torch.float64)],
        ),
        "where 8192x8192": ("aten::where.self", lambda: [t(8192, 8192) > 0, t(8192, 8192), t(8192, 8192)]),
        "masked fill of a row mask": (
            "aten::masked_fill.Scalar",
            lambda: [t(32, 16, 1024, 1024), t(1024, 1024) > 0, -1e4],
        ),
        "cast float32 to bfloat16": (
            "aten::copy_",
            lambda: [torch.empty(1 << 26, device="cuda", dtype=bf16), t(1 << 26, dtype=f32), False],
        ),
        "copy to channels last": (
            "aten::copy_",
            lambda: [t(64, 256, 56, 56, last=True), t(64, 256, 56, 56), False],
        ),
        "copy from channels last": (
            "aten::copy_",
            lambda: [t(64, 256, 56, 56, dtype=f32), t(64, 256, 56, 56, dtype=f32, last=True), False],
        ),
        "copy of x.t()": (
            "aten::copy_",
            lambda: [t(8192, 8192, dtype=f32), t(8192, 8192, dtype=f32).t(), False],
        ),
        "copy of x.t() float16": ("aten::copy_", lambda: [t(8192, 8192), t(8192, 8192).t(), False]),
        "heads 16x2048x16x64": (
            "aten::copy_",
            lambda: [t(16, 16, 2048, 64), t(16, 2048, 16, 64).transpose(1, 2), False],
        ),
        "cat channels": ("aten::cat", lambda: [[t(64, 256, 56, 56), t(64, 128, 56, 56)], 1]),
        "cat channels last": (
            "aten::cat",
            lambda: [[t(64, 256, 56, 56, last=True), t(64, 128, 56, 56, last=True)], 1],
        ),
        "sum of everything": ("aten::sum.dim_IntList", lambda: [t(1 << 26, dtype=f32), [], False, None]),
        "sum of rows 65536x1024": ("aten::sum.dim_IntList", lambda: [t(65536, 1024), [1], False, None]),
        "sum of columns 65536x1024": (
            "aten::sum.dim_IntList",
            lambda: [t(65536, 1024, dtype=f32), [0], False, None],
        ),
        "mean of planes": ("aten::mean.dim", lambda: [t(256, 2048, 7, 7), [-1, -2], True, None]),
        "sum of channels": (
            "aten::sum.dim_IntList",
            lambda: [t(128, 256, 28, 28, dtype=f32), [0, 2, 3], False, None],
        ),
        "sum of rows of 8": ("aten::sum.dim_IntList", lambda: [t(1 << 22, 8), [1], False, None]),
        "nearest to twice the size": (
            "aten::upsample_nearest2d",
            lambda: [t(32, 256, 64, 64), [128, 128], None, None],
        ),
        "amax 65536x1024": ("aten::amax", lambda: [t(65536, 1024, dtype=f32), [1], False]),
        "cumsum 8192x8192": ("aten::cumsum", lambda: [t(8192, 8192, dtype=f32), 1, None]),
        "cumsum 4x4M": ("aten::cumsum", lambda: [t(4, 1 << 22, dtype=f32), 1, None]),
        "cumsum down 8192x8192": ("aten::cumsum", lambda: [t(8192, 8192, dtype=f32), 0, None]),
        "cumsum down 1M x 2": ("aten::cumsum", lambda: [t(1 << 20, 2, dtype=f32), 0, None]),
        "topk 8 of 256": ("aten::topk", lambda: [t(4096, 256), 8, 1, True, True]),
        "topk 8 of 256 float32": ("aten::topk", lambda: [t(4096, 256, dtype=f32), 8, 1, True, True]),
        "topk 50 of 128k": ("aten::topk", lambda: [t(64, 1 << 17), 50, 1, True, True]),
        "nearest channels last": (
            "aten::upsample_nearest2d",
            lambda: [t(32, 256, 64, 64, last=True), [128, 128], None, None],
        ),
        "bilinear 32x256x64": (
            "aten::upsample_bilinear2d",
            lambda: [t(32, 256, 64, 64), [128, 128], False, None, None],
        ),
        "bilinear channels last": (
            "aten::upsample_bilinear2d",
            lambda: [t(32, 256, 64, 64, last=True), [128, 128], False, None, None],
        ),
        "avg pool": (
            "aten::avg_pool2d",
            lambda: [t(64, 256, 56, 56), [3, 3], [1, 1], [1, 1], False, True, None],
        ),
        "adaptive pool 7x7": ("aten::_adaptive_avg_pool2d", lambda: [t(64, 512, 28, 28), [7, 7]]),
        "adaptive pool 7x7 channels last": (
            "aten::_adaptive_avg_pool2d",
            lambda: [t(64, 512, 28, 28, last=True), [7, 7]],
        ),
        "adaptive pool 29 to 7": ("aten::_adaptive_avg_pool2d", lambda: [t(64, 512, 29, 29), [7, 7]]),
        "adaptive pool 29 to 7 channels last": (
            "aten::_adaptive_avg_pool2d",
            lambda: [t(64, 512, 29, 29, last=True), [7, 7]],
        ),
        "adaptive pool 7 to 3 channels last": (
            "aten::_adaptive_avg_pool2d",
            lambda: [t(64, 2048, 7, 7, last=True), [3, 3]],
        ),
        "adaptive pool 230 to 7": ("aten::_adaptive_avg_pool2d", lambda: [t(32, 64, 230, 230), [7, 7]]),
        "adaptive pool 230 to 7 channels last": (
            "aten::_adaptive_avg_pool2d",
            lambda: [t(32, 64, 230, 230, last=True), [7, 7]],
        ),
    }
