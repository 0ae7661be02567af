"""Cases of bench/ops.py for a processor: the same operators, in shapes of which a call takes milliseconds on two cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ops_cases as c
import torch
import torch.nn.functional as F
from ops_cases import Case

MAP, POOLED = (8, 64, 112, 112), 8 * 64 * 56 * 56


def _avg_pool(x: Any) -> Any:
    return F.avg_pool2d(x, 3, 2, 1)


def host() -> list[Case]:
    """Return the cases, those with a goal first."""
    f32, bf16 = "float32", "bfloat16"
    found: list[Case] = []

    def add(
        name: str, op: str, dtype: str, make: c.Make, call: c.Call, layout: str = "", **more: Any
    ) -> None:
        words = layout or "contiguous"
        tail = f" {layout}" if layout else ""
        found.append(Case(f"{name} {dtype}{tail}", op, dtype, words, make, call, group="host", **more))

    def of(dtype: str, *sizes: Sequence[int], last: bool = False) -> c.Make:
        return c._tensors(dtype, *sizes, last=last)

    for last in (False, True):
        layout = "channels_last" if last else "NCHW"
        x = of(f32, MAP, last=last)
        add("maxpool3s2 8x64x112x112", "aten::max_pool2d", f32, x, c.max_pool, layout, hidden=8 * POOLED)
        add("avgpool3s2 8x64x112x112", "aten::avg_pool2d", f32, x, _avg_pool, layout)
        add("adaptive_avgpool7 8x64x112x112", "aten::adaptive_avg_pool2d", f32, x, c._pooled(7), layout)
        if not last:
            add(
                "rmsnorm 2048x4096",
                "aten::rms_norm",
                bf16,
                of(bf16, (2048, 4096), (4096,)),
                c.rms_norm,
            )
            add("softmax dim0 2048x2048", "aten::softmax", f32, of(f32, (2048, 2048)), c._softmax(0))
            add(
                "transpose copy 4096x4096",
                "aten::copy_",
                f32,
                c._transposed(4096, f32),
                lambda x: x.contiguous(),
            )
    for dtype in (f32, bf16):
        rows, square = (4096, 1024), (2048, 2048)
        add("softmax 4096x1024", "aten::softmax", dtype, of(dtype, rows), c._softmax(-1))
        add("layernorm 4096x1024", "aten::layer_norm", dtype, c._norm(rows, 1024, dtype), c.layer_norm)
        if dtype == f32:
            add("rmsnorm 4096x1024", "aten::rms_norm", dtype, of(dtype, rows, (1024,)), c.rms_norm)
        add("gelu_tanh 4096x1024", "aten::gelu", dtype, of(dtype, rows), c._gelu)
        add("silu 4096x1024", "aten::silu", dtype, of(dtype, rows), F.silu)
        add("add 4096x1024", "aten::add", dtype, of(dtype, rows, rows), torch.add)
        add("relu 4096x1024", "aten::relu", dtype, of(dtype, rows), torch.relu)
        add("add bias bcast 4096x1024", "aten::add", dtype, of(dtype, rows, (1024,)), torch.add)
        add(
            "masked_fill 2048x2048",
            "aten::masked_fill",
            dtype,
            c._masked(square, dtype),
            lambda x, m: x.masked_fill(m, -1e4),
        )
        add("cumsum 16384x256", "aten::cumsum", dtype, of(dtype, (16384, 256)), lambda x: x.cumsum(-1))
        add("sum last8 524288x8", "aten::sum", dtype, of(dtype, (1 << 19, 8)), lambda x: x.sum(-1))
        add("mean dim1 8x512x1024", "aten::mean", dtype, of(dtype, (8, 512, 1024)), lambda x: x.mean(1))
        add("topk8 4096x256", "aten::topk", dtype, of(dtype, (4096, 256)), lambda x: tuple(x.topk(8)))
        add("cat 2048x2048", "aten::cat", dtype, of(dtype, square, square), c.cat)
        for last in (False, True):
            layout = "channels_last" if last else "NCHW"
            add(
                "batchnorm 8x64x56x56",
                "aten::batch_norm",
                dtype,
                c._batch_norm((8, 64, 56, 56), dtype, last),
                c.batch_norm,
                layout,
            )
            add(
                "groupnorm32 2x128x64x64",
                "aten::group_norm",
                dtype,
                c._norm((2, 128, 64, 64), 128, dtype, last),
                c.group_norm,
                layout,
            )
            add(
                "upsample2 2x64x96x96",
                "aten::upsample_nearest2d",
                dtype,
                of(dtype, (2, 64, 96, 96), last=last),
                c.nearest,
                layout,
            )
    add(
        "hf_rmsnorm 2048x2048",
        "rms_norm of transformers",
        f32,
        of(f32, (2048, 2048), (2048,)),
        c.hf_rms_norm,
        native=False,
    )
    add(
        "linear 256x1024x1024",
        "aten::linear",
        f32,
        of(f32, (256, 1024), (1024, 1024), (1024,)),
        F.linear,
        vendor=True,
    )
    add(
        "conv2d 4x64x56x56",
        "aten::conv2d",
        f32,
        of(f32, (4, 64, 56, 56), (64, 64, 3, 3)),
        lambda x, w: F.conv2d(x, w, padding=1),
        "NCHW",
        vendor=True,
    )
    add(
        "attention 1x8x512x64",
        "aten::scaled_dot_product_attention",
        f32,
        of(f32, *[(1, 8, 512, 64)] * 3),
        F.scaled_dot_product_attention,
        vendor=True,
    )
    return found
