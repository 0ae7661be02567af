"""The calls that `kernelforge.reach` makes: one for every overload in `torchext/ops.def`, in the names of a fixed set of small tensors."""

from __future__ import annotations

from typing import Any

_UNARY = ("relu", "silu", "gelu", "sigmoid", "tanh", "exp", "neg", "rsqrt")


# Overloads that have a kernel on one kind of device alone; calls of the others that reach them differ by device.
_ONLY_CPU = {
    "mkldnn_convolution": "F.conv2d(x, c, cb, padding=1)",
    "mkldnn_convolution.out": "torch.ops.aten.mkldnn_convolution.out(x, c, cb, [1, 1], [1, 1], [1, 1], 1, out=o)",
    "slow_conv3d_forward": "torch.ops.aten.slow_conv3d_forward(x3, c3, [3, 3, 3], cb, [1, 1, 1], [1, 1, 1])",
    "slow_conv3d_forward.output": "torch.ops.aten.slow_conv3d_forward.output(x3, c3, [3, 3, 3], cb, [1, 1, 1], [1, 1, 1], output=o3)",
    "_nnpack_spatial_convolution": "torch.ops.aten._nnpack_spatial_convolution(x, c, cb, [1, 1])",
    "_nnpack_spatial_convolution.out": "torch.ops.aten._nnpack_spatial_convolution.out(x, c, cb, [1, 1], out=o)",
    "_scaled_dot_product_flash_attention_for_cpu": "F.scaled_dot_product_attention(t, t, t)",
    "native_batch_norm": "F.batch_norm(x, rm, rv, w4, b4)",
}
# Hooked, but not run: torch's own kernel (seen with 2.11, without kernelforge) returns references that dangle, and the process breaks some calls later.
NOT_RUN = ("aten::cudnn_batch_norm.out",)
# Hooked before torch 2.14 alone, and for channels_last on CUDA alone: everything else passes as if there were no hook.
BEFORE_2_14 = ("aten::group_norm",)
_ONLY_CUDA = {
    "group_norm": "F.group_norm(xl, 2, w4, b4)",
    "native_batch_norm": "torch.native_batch_norm(x, w4, b4, rm, rv, False, 0.1, 1e-5)",
    "cudnn_batch_norm": "F.batch_norm(x, rm, rv, w4, b4)",
    "cudnn_convolution": "F.conv2d(x, c, padding=1)",
    "cudnn_convolution.out": (
        "torch.ops.aten.cudnn_convolution.out(x, c, [1, 1], [1, 1], [1, 1], 1, False, False, False, out=o)"
    ),
    "cudnn_convolution_relu": "torch.cudnn_convolution_relu(x, c, cb, (1, 1), (1, 1), (1, 1), 1)",
    "cudnn_convolution_relu.out": (
        "torch.ops.aten.cudnn_convolution_relu.out(x, c, cb, [1, 1], [1, 1], [1, 1], 1, out=o)"
    ),
    "cudnn_convolution_add_relu": "torch.cudnn_convolution_add_relu(x, c, y, 1.0, cb, (1, 1), (1, 1), (1, 1), 1)",
    "cudnn_convolution_add_relu.out": (
        "torch.ops.aten.cudnn_convolution_add_relu.out(x, c, y, 1.0, cb, [1, 1], [1, 1], [1, 1], 1, out=o)"
    ),
    "cudnn_convolution_transpose": "F.conv_transpose2d(x, c, padding=1)",
    "cudnn_convolution_transpose.out": (
        "torch.ops.aten.cudnn_convolution_transpose.out("
        "x, c, [1, 1], [0, 0], [1, 1], [1, 1], 1, False, False, False, out=o)"
    ),
    "_conv_depthwise2d": "torch.ops.aten._conv_depthwise2d(x, cd, [3, 3], cb, [1, 1], [1, 1], [1, 1])",
    "_conv_depthwise2d.out": "torch.ops.aten._conv_depthwise2d.out(x, cd, [3, 3], cb, [1, 1], [1, 1], [1, 1], out=o)",
    "conv_depthwise3d": "torch.ops.aten.conv_depthwise3d(x3, cd3, [3, 3, 3], cb, [1, 1, 1], [1, 1, 1], [1, 1, 1])",
    "conv_depthwise3d.out": (
        "torch.ops.aten.conv_depthwise3d.out(x3, cd3, [3, 3, 3], cb, [1, 1, 1], [1, 1, 1], [1, 1, 1], out=o3)"
    ),
    "_scaled_dot_product_flash_attention": "torch.ops.aten._scaled_dot_product_flash_attention(th, th, th)",
    "_scaled_dot_product_efficient_attention": (
        "torch.ops.aten._scaled_dot_product_efficient_attention(t, t, t, None, False)"
    ),
    "_scaled_dot_product_cudnn_attention": (
        "torch.ops.aten._scaled_dot_product_cudnn_attention(th, th, th, None, False)"
    ),
}


def texts(device: str) -> dict[str, str]:
    """Return overload -> the call that should reach it, in the names of `variables`."""
    calls: dict[str, str] = {}
    for name in _UNARY:
        user = "F" if name in ("silu", "gelu") else "torch"
        calls[name] = f"{user}.{name}(p)"
        calls[f"{name}_"] = {
            "silu": "F.silu(p, inplace=True)",
            "gelu": "torch.ops.aten.gelu_(p)",
        }.get(name, f"p.{name}_()")
        calls[f"{name}.out"] = (
            f"torch.ops.aten.{name}.out(p, out=o)"
            if name in ("relu", "silu", "gelu")
            else f"torch.{name}(p, out=o)"
        )
    calls |= {
        "clamp_min": "torch.clamp_min(x, 0.5)",
        "clamp_min_": "x.clamp_min_(0.5)",
        "clamp_min.out": "torch.clamp_min(x, 0.5, out=o)",
        "clamp": "torch.clamp(x, -0.5, 0.5)",
        "clamp_": "x.clamp_(-0.5, 0.5)",
        "clamp.out": "torch.clamp(x, -0.5, 0.5, out=o)",
        "hardtanh": "F.hardtanh(x)",
        "hardtanh_": "F.hardtanh(x, inplace=True)",
        "hardtanh.out": "torch.ops.aten.hardtanh.out(x, -1.0, 1.0, out=o)",
        "pow.Tensor_Scalar": "torch.pow(p, 3)",
        "pow_.Scalar": "p.pow_(3)",
        "pow.Tensor_Scalar_out": "torch.pow(p, 3, out=o)",
        "where.self": "torch.where(k, x, y)",
        "where.self_out": "torch.where(k, x, y, out=o)",
        "masked_fill.Scalar": "x.masked_fill(k, 0.5)",
        "masked_fill_.Scalar": "x.masked_fill_(k, 0.5)",
        "masked_fill.Scalar_out": "torch.ops.aten.masked_fill.Scalar_out(x, k, 0.5, out=o)",
        "masked_fill.Tensor": "x.masked_fill(k, s)",
        "masked_fill_.Tensor": "x.masked_fill_(k, s)",
        "masked_fill.Tensor_out": "torch.ops.aten.masked_fill.Tensor_out(x, k, s, out=o)",
        "copy_": "x.copy_(y)",
        "copy": "torch.ops.aten.copy(x, y)",
        "copy.out": "torch.ops.aten.copy.out(x, y, out=o)",
        "cat": "torch.cat([x, y], 1)",
        "cat.out": "torch.cat([x, y], 1, out=oo)",
    }
    for name in ("add", "sub", "mul", "div"):
        calls[f"{name}.Tensor"] = f"torch.{name}(x, p)"
        calls[f"{name}_.Tensor"] = f"x.{name}_(p)"
        calls[f"{name}.out"] = f"torch.{name}(x, p, out=o)"
    stats = "w4, b4, rm, rv"
    calls |= {
        "_softmax": "F.softmax(x, -1)",
        "_softmax.out": "torch.softmax(x, -1, out=o)",
        "_log_softmax": "F.log_softmax(x, -1)",
        "_log_softmax.out": "torch.log_softmax(x, -1, out=o)",
        "native_layer_norm": "F.layer_norm(x, (8,), w8, b8)",
        "native_layer_norm.out": "torch.ops.aten.native_layer_norm.out(x, [8], w8, b8, 1e-5, out0=o, out1=r1, out2=r2)",
        "native_group_norm": "F.group_norm(x, 2, w4, b4)",
        "native_group_norm.out": "torch.ops.aten.native_group_norm.out(x, w4, b4, 2, 4, 64, 2, 1e-5, out0=o, out1=g1, out2=g2)",
        "native_batch_norm.out": f"torch.ops.aten.native_batch_norm.out(x, {stats}, False, 0.1, 1e-5, out=o, save_mean=e1, save_invstd=e2)",
        "_native_batch_norm_legit_no_training": f"torch.ops.aten._native_batch_norm_legit_no_training(x, {stats}, 0.1, 1e-5)",
        "_native_batch_norm_legit_no_training.out": (
            f"torch.ops.aten._native_batch_norm_legit_no_training.out(x, {stats}, 0.1, 1e-5, out0=o, out1=e1, out2=e2)"
        ),
        "_native_batch_norm_legit": f"torch.ops.aten._native_batch_norm_legit(x, {stats}, False, 0.1, 1e-5)",
        "_native_batch_norm_legit.out": (
            f"torch.ops.aten._native_batch_norm_legit.out(x, {stats}, False, 0.1, 1e-5, out=o, save_mean=e1, save_invstd=e2)"
        ),
        "_fused_rms_norm": "F.rms_norm(x, (8,), w8)",
        "mean.dim": "x.mean(-1)",
        "mean.out": "torch.mean(x, -1, out=r)",
        "sum.dim_IntList": "x.sum(-1)",
        "sum.IntList_out": "torch.sum(x, -1, out=r)",
        "amax": "x.amax(-1)",
        "amax.out": "torch.amax(x, -1, out=r)",
        "cumsum": "x.cumsum(-1)",
        "cumsum_": "x.cumsum_(-1)",
        "cumsum.out": "torch.cumsum(x, -1, out=o)",
        "topk": "torch.topk(x, 4, -1)",
        "topk.values": "torch.topk(x, 4, -1, out=(hk, hki))",
        "max_pool2d": "F.max_pool2d(x, 2)",
        "max_pool2d_with_indices": "F.max_pool2d(x, 2, return_indices=True)",
        "max_pool2d_with_indices.out": "torch.ops.aten.max_pool2d_with_indices.out(x, [2, 2], out=h, indices=hi)",
        "avg_pool2d": "F.avg_pool2d(x, 2)",
        "avg_pool2d.out": "torch.ops.aten.avg_pool2d.out(x, [2, 2], out=h)",
        "_adaptive_avg_pool2d": "F.adaptive_avg_pool2d(x, (4, 4))",
        "_adaptive_avg_pool2d.out": "torch.ops.aten._adaptive_avg_pool2d.out(x, [4, 4], out=h)",
        "adaptive_avg_pool2d.out": "torch.ops.aten.adaptive_avg_pool2d.out(x, [4, 4], out=h)",
        "upsample_nearest2d": "F.interpolate(x, scale_factor=2, mode='nearest')",
        "upsample_nearest2d.out": "torch.ops.aten.upsample_nearest2d.out(x, [16, 16], out=u)",
        "upsample_bilinear2d": "F.interpolate(x, scale_factor=2, mode='bilinear')",
        "upsample_bilinear2d.out": "torch.ops.aten.upsample_bilinear2d.out(x, [16, 16], False, out=u)",
        "addmm": "F.linear(m, n.t(), a)",
        "addmm_": "mn.addmm_(m, n)",
        "addmm.out": "torch.addmm(a, m, n, out=mo)",
        "mm": "m @ n",
        "mm.out": "torch.mm(m, n, out=mo)",
        "bmm": "torch.bmm(q1, q2)",
        "bmm.out": "torch.bmm(q1, q2, out=qo)",
        "_slow_conv2d_forward": "torch.ops.aten._slow_conv2d_forward(x, c, [3, 3], cb, [1, 1], [1, 1])",
        "_slow_conv2d_forward.output": "torch.ops.aten._slow_conv2d_forward.output(x, c, [3, 3], cb, [1, 1], [1, 1], output=o)",
        "slow_conv_dilated2d": "torch.ops.aten.slow_conv_dilated2d(x, c, [3, 3], cb, [1, 1], [2, 2], [2, 2])",
        "slow_conv_dilated2d.out": "torch.ops.aten.slow_conv_dilated2d.out(x, c, [3, 3], cb, [1, 1], [2, 2], [2, 2], out=o)",
        "slow_conv_dilated3d": "torch.ops.aten.slow_conv_dilated3d(x3, c3, [3, 3, 3], cb, [1, 1, 1], [2, 2, 2], [2, 2, 2])",
        "slow_conv_dilated3d.out": "torch.ops.aten.slow_conv_dilated3d.out(x3, c3, [3, 3, 3], cb, [1, 1, 1], [2, 2, 2], [2, 2, 2], out=o3)",
        "slow_conv_transpose2d": "torch.ops.aten.slow_conv_transpose2d(x, c, [3, 3], cb, [1, 1], [1, 1])",
        "slow_conv_transpose2d.out": "torch.ops.aten.slow_conv_transpose2d.out(x, c, [3, 3], cb, [1, 1], [1, 1], out=o)",
        "slow_conv_transpose3d": "torch.ops.aten.slow_conv_transpose3d(x3, c3, [3, 3, 3], cb, [1, 1, 1], [1, 1, 1])",
        "slow_conv_transpose3d.out": "torch.ops.aten.slow_conv_transpose3d.out(x3, c3, [3, 3, 3], cb, [1, 1, 1], [1, 1, 1], out=o3)",
    }
    calls |= _ONLY_CUDA if device == "cuda" else _ONLY_CPU
    return {f"aten::{name}": text for name, text in calls.items()}


def variables(device: str) -> dict[str, Any]:
    """Return fresh tensors by name, the same on every device: `x y p xl` 2x4x8x8 (p positive, xl channels_last), `k` a mask, `o*` outputs, the rest by use."""
    import torch

    with torch.device("cpu"):
        made = _made(torch.Generator().manual_seed(7))
    if device == "cuda":  # there batch norm's statistics have a value for each channel in evaluation, too
        made |= {"e1": torch.empty(4, device="cpu"), "e2": torch.empty(4, device="cpu")}
    return {name: t.to(device) for name, t in made.items()}


def _made(g: Any) -> dict[str, Any]:
    import torch

    e = torch.empty

    def r(*sizes: int) -> Any:
        return torch.randn(*sizes, generator=g)

    return {
        "x": r(2, 4, 8, 8), "y": r(2, 4, 8, 8), "p": r(2, 4, 8, 8).abs() + 0.5, "k": r(2, 4, 8, 8) > 0, "s": torch.tensor(0.5),
        "o": e(2, 4, 8, 8), "oo": e(2, 8, 8, 8), "r": e(2, 4, 8), "r1": e(2, 4, 8, 1), "r2": e(2, 4, 8, 1), "g1": e(2, 2), "g2": e(2, 2),
        "h": e(2, 4, 4, 4), "hi": e(2, 4, 4, 4, dtype=torch.int64), "hk": e(2, 4, 8, 4), "hki": e(2, 4, 8, 4, dtype=torch.int64), "u": e(2, 4, 16, 16),
        "w4": r(4), "b4": r(4), "rm": r(4), "rv": r(4).abs() + 0.5, "w8": r(8), "b8": r(8), "e1": e(0), "e2": e(0),
        "m": r(4, 6), "n": r(6, 5), "a": r(5), "mn": r(4, 5), "mo": e(4, 5), "q1": r(2, 4, 6), "q2": r(2, 6, 5), "qo": e(2, 4, 5),
        "c": r(4, 4, 3, 3), "cb": r(4), "x3": r(1, 4, 4, 4, 4), "c3": r(4, 4, 3, 3, 3), "o3": e(1, 4, 4, 4, 4), "t": r(1, 2, 16, 8),
        "cd": r(4, 1, 3, 3), "cd3": r(4, 1, 3, 3, 3), "th": torch.randn(1, 2, 16, 8, dtype=torch.float16, generator=g),
        "xl": r(2, 4, 8, 8).contiguous(memory_format=torch.channels_last),
    }  # fmt: skip
