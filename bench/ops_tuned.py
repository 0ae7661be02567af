"""Kernels of tuned libraries for the cases of bench/ops.py, where such a library is installed: Liger, QuACK, FlashInfer, apex.

It owns the ways to call them. It refuses to install anything, and a kernel whose output is not eager's: then the row says so. The first library that
serves a call is taken.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

import torch

Call = Callable[..., Any]
LOOSE = {
    "float32": 1e-3,
    "bfloat16": 4e-2,
    "float16": 1e-2,
}  # of the largest output; only a wrong call is to be found here


def _of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _liger_softmax() -> Call:
    return _of("liger_kernel.ops.softmax", "LigerSoftmaxFunction").apply  # type: ignore[no-any-return]


def _liger_layer_norm() -> Call:
    apply = _of("liger_kernel.ops.layer_norm", "LigerLayerNormFunction").apply
    return lambda x, w, b: apply(x, w, b, 1e-6)


def _liger_rms_norm() -> Call:
    apply = _of("liger_kernel.ops.rms_norm", "LigerRMSNormFunction").apply
    return lambda x, w: apply(x, w, 1e-6, 0.0, "llama", False)


def _liger_group_norm() -> Call:
    apply = _of("liger_kernel.ops.group_norm", "LigerGroupNormFunction").apply

    def call(x: Any, w: Any, b: Any) -> Any:
        if not x.is_contiguous():
            raise ValueError("Liger would copy channels_last first")
        return apply(x.flatten(2), w, b, x.shape[1], 32, 1e-6).view(x.shape)

    return call


def _liger_silu_mul() -> Call:
    return _of("liger_kernel.ops.swiglu", "LigerSiLUMulFunction").apply  # type: ignore[no-any-return]


def _quack_softmax() -> Call:
    return _of("quack.softmax", "softmax")  # type: ignore[no-any-return]


def _quack_rms_norm() -> Call:
    rms_norm = _of("quack.rmsnorm", "rmsnorm")
    return lambda x, w: rms_norm(x, w, eps=1e-6)


def _quack_topk() -> Call:
    topk = _of("quack.topk", "topk")
    return lambda x: topk(x, 8)


def _flashinfer_rms_norm() -> Call:
    rms_norm = _of("flashinfer.norm", "rmsnorm")
    return lambda x, w: rms_norm(x, w, 1e-6)


def _apex_layer_norm() -> Call:
    norm = _of("apex.normalization.fused_layer_norm", "fused_layer_norm_affine")
    return lambda x, w, b: norm(x, w, b, (x.shape[-1],), 1e-6)


def _apex_group_norm() -> Call:
    norm = _of("apex.contrib.group_norm.group_norm", "cuda_group_norm_nhwc_one_pass")

    def call(x: Any, w: Any, b: Any) -> Any:
        if not x.is_contiguous(memory_format=torch.channels_last):
            raise ValueError("apex serves channels_last alone")
        return norm(x, 32, w, b, 1e-6)

    return call


# Per word: distribution and maker, in the order in which they are tried.
LIBRARIES: dict[str, list[tuple[str, Callable[[], Call]]]] = {
    "softmax": [("quack-kernels", _quack_softmax), ("liger-kernel", _liger_softmax)],
    "layer_norm": [("apex", _apex_layer_norm), ("liger-kernel", _liger_layer_norm)],
    "rms_norm": [
        ("quack-kernels", _quack_rms_norm),
        ("flashinfer-python", _flashinfer_rms_norm),
        ("liger-kernel", _liger_rms_norm),
    ],
    "group_norm": [("apex", _apex_group_norm), ("liger-kernel", _liger_group_norm)],
    "silu_mul": [("liger-kernel", _liger_silu_mul)],
    "topk": [("quack-kernels", _quack_topk)],
}


def version(distribution: str) -> str | None:
    """Return a distribution's version, None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def find(
    word: str | None, eager: Call, arguments: list[torch.Tensor], dtype: str
) -> tuple[Call | None, str, str]:
    """Return (call, its library with version, "") or (None, "", why there is none)."""
    if word is None or not arguments[0].is_cuda:
        return None, "", "no tuned library is known for this call"
    reasons = []
    for distribution, make in LIBRARIES[word]:
        there = version(distribution)
        if there is None:
            reasons.append(f"{distribution} is not installed")
            continue
        try:
            call = make()
            wrong = _differs(call(*arguments), eager(*arguments), dtype)
        except Exception as e:  # another version of the library, or a shape that it refuses
            reasons.append(
                f"{distribution} {there}: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}"[:200]
            )
            continue
        if not wrong:
            return call, f"{distribution} {there}", ""
        reasons.append(f"{distribution} {there}: {wrong}")
    return None, "", "; ".join(reasons)


def _differs(made: Any, wanted: Any, dtype: str) -> str:
    """Return how far a library's output is from eager's, "" if it is the same but for rounding."""
    first, other = (x[0] if isinstance(x, tuple) else x for x in (made, wanted))
    if first.shape != other.shape:
        return f"shape {tuple(first.shape)} (expected {tuple(other.shape)})"
    far = float((first.float() - other.float()).abs().max() / other.float().abs().max().clamp_min(1e-12))
    return "" if far <= LOOSE[dtype] else f"output differs by {far:.2g} of the largest"
