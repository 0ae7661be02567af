"""Cases of bench/ops.py beside the first 114: where float16 matters, the paper's operators with its models' shapes, and operators between their neighbours."""

from __future__ import annotations

from typing import Any

import ops_cases as c
import torch
import torch.nn.functional as F
from ops_cases import Case

BF16, F16, F32 = "bfloat16", "float16", "float32"


def fp16() -> list[Case]:
    """ResNet-50, float16, channels_last, batch 256, as its operators arrive; and rows of transformers."""

    def case(name: str, op: str, layout: str, make: c.Make, call: c.Call, **more: Any) -> Case:
        return Case(f"{name} float16", op, F16, layout, make, call, group="fp16", **more)

    def maps(name: str, op: str, sizes: tuple[int, ...], call: c.Call, count: int = 1, **more: Any) -> Case:
        make = c._tensors(F16, *[sizes] * count, last=True)
        words = "x".join(map(str, sizes))
        return case(f"{name} {words} channels_last", op, "channels_last", make, call, **more)

    stem, wide, deep = (256, 64, 112, 112), (256, 256, 56, 56), (256, 2048, 7, 7)
    indices = 8 * 256 * 64 * 56 * 56
    norm = c._batch_norm
    return [
        maps("relu_", "aten::relu_", stem, torch.relu_),
        maps("add_", "aten::add_", wide, lambda x, y: x.add_(y), 2),
        maps("maxpool3s2", "aten::max_pool2d", stem, c.max_pool, hidden=indices),
        maps("adaptive_avgpool1", "aten::adaptive_avg_pool2d", deep, lambda x: F.adaptive_avg_pool2d(x, 1)),
        *(
            case(
                f"batchnorm {'x'.join(map(str, s))} channels_last",
                "aten::batch_norm",
                "channels_last",
                norm(s, F16, True),
                c.batch_norm,
            )
            for s in (stem, wide, deep)
        ),
        case(
            "softmax 4096x8192",
            "aten::softmax",
            "contiguous",
            c._tensors(F16, (4096, 8192)),
            c._softmax(-1),
            tuned="softmax",
        ),
        case(
            "softmax attention 1x16x2048x2048",
            "aten::softmax",
            "contiguous",
            c._tensors(F16, (1, 16, 2048, 2048)),
            c._softmax(-1),
        ),
        case(
            "layernorm 32768x768",
            "aten::layer_norm",
            "contiguous",
            c._norm((32768, 768), 768, F16),
            c.layer_norm,
            tuned="layer_norm",
        ),
        case(
            "rmsnorm 4096x4096",
            "aten::rms_norm",
            "contiguous",
            c._tensors(F16, (4096, 4096), (4096,)),
            c.rms_norm,
            tuned="rms_norm",
        ),
        case(
            "groupnorm32 1x512x128x128",
            "aten::group_norm",
            "NCHW",
            c._norm((1, 512, 128, 128), 512, F16),
            c.group_norm,
            tuned="group_norm",
        ),
        case(
            "transpose copy", "aten::copy_", "contiguous", c._transposed(4096, F16), lambda x: x.contiguous()
        ),
    ]


def paper() -> list[Case]:
    """The operators of the paper's tables, with its models' shapes: ResNet-50 at batch 32, SD 3.5 at 1024 px, Gemma 4 and Qwen 3.5 at 2,048 tokens."""

    def case(
        key: str, op: str, dtype: str, make: c.Make, call: c.Call, layout: str = "contiguous", **more: Any
    ) -> Case:
        return Case(f"{key} {dtype}", op, dtype, layout, make, call, group="paper", paper=key, **more)

    wide = (32, 256, 56, 56)
    found = [
        case("resnet50 add", "aten::add", F32, c._tensors(F32, wide, wide), torch.add, "NCHW"),
        case("resnet50 relu", "aten::relu", F32, c._tensors(F32, wide), torch.relu, "NCHW"),
        case(
            "resnet50 max_pool2d",
            "aten::max_pool2d",
            F32,
            c._tensors(F32, (32, 64, 112, 112)),
            c.max_pool,
            "NCHW",
            hidden=8 * 32 * 64 * 56 * 56,
        ),
        case(
            "resnet50 adaptive_avg_pool2d",
            "aten::adaptive_avg_pool2d",
            F32,
            c._tensors(F32, (32, 2048, 7, 7)),
            c._pooled(1),
            "NCHW",
        ),
        case(
            "resnet50 batch_norm",
            "aten::batch_norm",
            F32,
            c._batch_norm(wide, F32, False),
            c.batch_norm,
            "NCHW",
        ),
        case(
            "resnet50 conv2d",
            "aten::conv2d",
            F32,
            c._tensors(F32, (32, 64, 56, 56), (64, 64, 3, 3)),
            lambda x, w: F.conv2d(x, w, padding=1),
            "NCHW",
            vendor=True,
        ),
        case(
            "resnet50 linear",
            "aten::linear",
            F32,
            c._tensors(F32, (32, 2048), (1000, 2048), (1000,)),
            F.linear,
            vendor=True,
        ),
        case(
            "sd35 group_norm",
            "aten::group_norm",
            BF16,
            c._norm((1, 512, 128, 128), 512, BF16),
            c.group_norm,
            "NCHW",
            tuned="group_norm",
        ),
        case(
            "sd35 layer_norm",
            "aten::layer_norm",
            BF16,
            c._tensors(BF16, (2, 4333, 1536)),
            lambda x: F.layer_norm(x, (1536,), eps=1e-6),
        ),
        case("sd35 silu", "aten::silu", BF16, c._tensors(BF16, (1, 512, 512, 512)), F.silu, "NCHW"),
        case(
            "sd35 linear",
            "aten::linear",
            BF16,
            c._tensors(BF16, (2, 4096, 1536), (6144, 1536), (6144,)),
            F.linear,
            vendor=True,
        ),
        case(
            "sd35 attention",
            "aten::scaled_dot_product_attention",
            BF16,
            c._tensors(BF16, *[(2, 24, 4333, 64)] * 3),
            F.scaled_dot_product_attention,
            vendor=True,
        ),
        case(
            "sd35 conv2d",
            "aten::conv2d",
            BF16,
            c._tensors(BF16, (1, 512, 128, 128), (512, 512, 3, 3)),
            lambda x, w: F.conv2d(x, w, padding=1),
            "NCHW",
            vendor=True,
        ),
        case("gemma4 softmax", "aten::softmax", BF16, c._tensors(BF16, (1, 8, 2048, 2048)), c._softmax(-1)),
        case("qwen35 softmax", "aten::softmax", F32, c._tensors(F32, (2048, 256)), c._softmax(-1)),
    ]
    channels_last = [
        Case(
            "group_norm 1x512x128x128 channels_last bfloat16",
            "aten::group_norm",
            BF16,
            "channels_last",
            c._norm((1, 512, 128, 128), 512, BF16, True),
            c.group_norm,
            group="paper",
            tuned="group_norm",
        )
    ]
    return found + channels_last


# ---- between neighbours ------------------------------------------------------------------------------------------------


class Weights:
    """Weights of neighbours, made once for each device, from a fixed seed."""

    def __init__(self, dtype: str, *sizes: int, last: bool = False) -> None:
        self.dtype, self.sizes, self.last, self.made = dtype, sizes, last, dict[str, torch.Tensor]()

    def on(self, x: torch.Tensor) -> torch.Tensor:
        key = str(x.device)
        if key not in self.made:
            scale = (self.sizes[1] * (9 if len(self.sizes) == 4 and self.sizes[2] == 3 else 1)) ** -0.5
            drawn = c.t(key, *self.sizes, dtype="float32", seed=11, last=self.last) * scale
            self.made[key] = drawn.to(getattr(torch, self.dtype))
        return self.made[key]


def _conv(w: Weights) -> c.Call:
    return lambda x: F.conv2d(x, w.on(x), padding=w.sizes[2] // 2)


def _linear(w: Weights) -> c.Call:
    return lambda x: F.linear(x, w.on(x))


def in_models() -> list[Case]:
    """Operators where they stand in a model: what runs before leaves its output in the cache, or does not."""

    def case(
        name: str,
        op: str,
        dtype: str,
        layout: str,
        make: c.Make,
        call: c.Call,
        before: c.Call,
        after: c.Call,
        **more: Any,
    ) -> Case:
        return Case(
            f"in model: {name} {dtype}",
            op,
            dtype,
            layout,
            make,
            call,
            group="model",
            between=(before, after),
            **more,
        )

    stem, wide = (256, 64, 56, 56), (256, 256, 56, 56)
    half = Weights(F16, 64, 64, 1, 1, last=True)
    vae, vae_large = Weights(BF16, 512, 512, 3, 3), Weights(BF16, 128, 128, 3, 3)
    proj, keys, values = (
        Weights(BF16, 1536, 1536),
        Weights(BF16, 2048, 256),
        Weights(BF16, 256, 2048),
    )
    last = "channels_last"
    return [
        case(
            "resnet50 batch_norm after conv2d, before relu",
            "aten::batch_norm",
            F16,
            last,
            c._batch_norm(stem, F16, True),
            c.batch_norm,
            _conv(half),
            torch.relu,
        ),
        case(
            "resnet50 relu after batch_norm's output, before conv2d",
            "aten::relu",
            F16,
            last,
            c._tensors(F16, stem, last=True),
            torch.relu,
            lambda x: x * 0.5,
            _conv(half),
        ),
        case(
            "resnet50 add before relu",
            "aten::add",
            F16,
            last,
            c._tensors(F16, wide, wide, last=True),
            torch.add,
            lambda x: x * 0.5,
            torch.relu,
        ),
        case(
            "sd35 group_norm 512x128x128 after conv2d, before silu",
            "aten::group_norm",
            BF16,
            "NCHW",
            c._norm((1, 512, 128, 128), 512, BF16),
            c.group_norm,
            _conv(vae),
            F.silu,
        ),
        case(
            "sd35 group_norm 128x1024x1024 after conv2d, before silu",
            "aten::group_norm",
            BF16,
            "NCHW",
            c._norm((1, 128, 1024, 1024), 128, BF16),
            c.group_norm,
            _conv(vae_large),
            F.silu,
        ),
        case(
            "sd35 silu after group_norm's output, before conv2d",
            "aten::silu",
            BF16,
            "NCHW",
            c._tensors(BF16, (1, 512, 128, 128)),
            F.silu,
            lambda x: x * 0.5,
            _conv(vae),
        ),
        case(
            "sd35 layer_norm after linear, before linear",
            "aten::layer_norm",
            BF16,
            "contiguous",
            c._norm((8666, 1536), 1536, BF16),
            c.layer_norm,
            _linear(proj),
            _linear(proj),
        ),
        case(
            "gemma4 softmax between the products of attention",
            "aten::softmax",
            BF16,
            "contiguous",
            c._tensors(BF16, (8, 2048, 2048)),
            c._softmax(-1),
            # One product each way: a head's scores from its queries, and its output from its scores, with the shapes of 2,048 tokens and 256 wide heads.
            lambda x: F.linear(x[..., :256], keys.on(x)),
            _linear(values),
        ),
    ]
