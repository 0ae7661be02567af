"""The table of operators: which rule each follows, which elements share an error, and how large the terms of a result are.

One line an operator, for all its forms (functional, in place, out). It owns no constants (`rule.py`) and compares nothing (`bounds.py`).

    moves     values are copied: every bit as eager, signs of zeros and NaN payloads included
    rounds    one correctly rounded operation: every bit as eager, but any NaN is a NaN
    selects   one of the inputs: as `rounds`, and a zero may have either sign (eager's own vector and scalar paths differ)
    ranks     values whose order is not specified, and indices of them (`ranks.py`)
    bounded   T2 to T4

Integer and boolean outputs equal eager bit for bit whatever the line says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..errors import RefereeFault
from . import wide
from .calls import Overload, map_tensors
from .specials import Lines

Kind = Literal["moves", "rounds", "selects", "ranks", "bounded"]
Named = dict[str, Any]
Outputs = list[torch.Tensor]
Scale = Callable[[Overload, Named, Outputs], list[torch.Tensor | None]]
Axes = Callable[[Named, int, torch.Tensor], tuple[tuple[int, ...], tuple[int, ...]]]


@dataclass(frozen=True)
class Operator:
    """A line of the table.

    scale  (overload, float64 arguments, float64 outputs) -> S of each output; None stands for |R|, and no terms that could cancel.
    wide   (float64 arguments) -> the reference, where the overload itself cancels even in float64; None: the overload.
    axes   (arguments, output's index, output) -> the shape to view it in and the dimensions that share an error; None: pointwise, elements
           whose input has one sign and binade share an error.
    lines  along what of the first input special values make a pattern (`specials.Lines`); None: short runs.
    probe  whether small integers are exact in this call; None: never.
    adds   what one output is of one line: "sum" or "mean", where there are as many outputs as lines; "": neither.
    statistics  outputs after the first are statistics of rows.
    vendor  the vendor's library computes it; no template tries.
    """

    kind: Kind
    scale: Scale | None = None
    axes: Axes | None = None
    lines: Callable[[Named], Lines] | None = None
    probe: Callable[[Named], bool] | None = None
    wide: Callable[[Named], Outputs] | None = None
    adds: str = ""
    statistics: bool = False
    vendor: bool = False


# ---- which elements share an error ------------------------------------------------------------------------------------------------


def _along(named: Named, index: int, out: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(out.shape), (named["dim"] % max(out.dim(), 1),) if out.dim() else ()


def _normalized(named: Named, index: int, out: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if index > 0:  # one statistic a row: all rows are comparable
        return _whole(named, index, out)
    return tuple(out.shape), tuple(range(out.dim() - len(named["normalized_shape"]), out.dim()))


def _groups(named: Named, index: int, out: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if index > 0:
        return _whole(named, index, out)
    named = wide.leaf_of_group_norm(named)
    return (named["N"], named["group"], out.numel() // max(named["N"] * named["group"], 1)), (2,)


def _channels(named: Named, index: int, out: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(out.shape), tuple(d for d in range(out.dim()) if d != 1)


def _plane(named: Named, index: int, out: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(out.shape), (out.dim() - 2, out.dim() - 1)


def _whole(named: Named, index: int, out: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(out.shape), tuple(range(out.dim()))


# ---- how large the terms are ------------------------------------------------------------------------------------------------------


def _of_magnitudes(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    """S of a linear operator with non-negative coefficients, or of a product of sums: the same call on absolute values."""
    factors = {n: abs(v) if n in ("alpha", "beta") else v for n, v in named.items()}
    return list(
        overload(map_tensors(list(factors.values()), lambda t: t.abs() if t.is_floating_point() else t))
    )


def _of_convolved_magnitudes(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    return list(wide.convolve({n: v.abs() if isinstance(v, torch.Tensor) else v for n, v in named.items()}))


def _of_values(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    """S of attention: the weights are a softmax and do not cancel, the values may; of the logarithm of a sum, as for log_softmax."""
    changed = {n: v.abs() if n == "value" else v for n, v in named.items()}
    return [overload(list(changed.values()))[0], *(o.abs() + 1 for o in outputs[1:])]


def _of_sum(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    a, b, alpha = named["self"], named["other"], named["alpha"]
    return [torch.as_tensor(a).abs() + torch.as_tensor(b).abs() * abs(alpha)]


def _of_itself(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    """S of a product or quotient with a sum that cannot cancel: the result; another order of summation moves a whole row by a few u."""
    return [out.abs() for out in outputs]


def _of_log_softmax(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    """S of x - max - log(sum): the two terms, and the sum, which is at least 1, so its rounding alone moves the logarithm by u."""
    x = named["self"]
    below = x - x.amax(named["dim"], keepdim=True) if x.numel() else x
    return [below.abs() + (below - outputs[0]).abs() + 1]


def _of_layer_norm(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    x, weight, bias = named["input"], named["weight"], named["bias"]
    _, mean, rstd = outputs
    size = x.abs().mean(tuple(range(x.dim() - len(named["normalized_shape"]), x.dim())), keepdim=True)
    return [_affine((x.abs() + size) * rstd, weight, bias), size, _of_rstd(mean, rstd)]


def _of_group_norm(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    named = wide.leaf_of_group_norm(named)
    x, n, g = named["input"], named["N"], named["group"]
    _, mean, rstd = outputs if len(outputs) == 3 else wide.normalize_groups(named)
    rows = x.reshape(n, g, -1).abs()
    size = rows.mean(2, keepdim=True)  # the mean's own terms: it may cancel to nothing
    terms = ((rows + size) * rstd.reshape(n, g, 1)).reshape(x.shape)
    channel = (1, -1, *([1] * (x.dim() - 2)))
    weight, bias = (None if p is None else p.reshape(channel) for p in (named["weight"], named["bias"]))
    return [_affine(terms, weight, bias), size.reshape(mean.shape), _of_rstd(mean, rstd)][: len(outputs)]


def _of_batch_norm(overload: Overload, named: Named, outputs: Outputs) -> list[torch.Tensor | None]:
    x = named["input"]
    channel = (1, -1, *([1] * (x.dim() - 2)))
    rstd = (named["running_var"] + named["eps" if "eps" in named else "epsilon"]).rsqrt().reshape(channel)
    terms = (x.abs() + named["running_mean"].abs().reshape(channel)) * rstd
    weight, bias = (None if p is None else p.reshape(channel) for p in (named["weight"], named["bias"]))
    return [_affine(terms, weight, bias), *([None] * (len(outputs) - 1))]


def _affine(terms: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    if weight is not None:
        terms = terms * weight.abs()
    return terms if bias is None else terms + bias.abs()


def _of_rstd(mean: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    """S of 1 / standard deviation: Welford's recurrence, eager's, has a relative error of u (1 + |mean| / sigma).

    A variance in one pass has u (mean / sigma)^2, which this does not cover.
    """
    return rstd * (1 + mean.abs() * rstd)


# ---- special values and probes ----------------------------------------------------------------------------------------------------


def _dim(named: Named) -> tuple[int, ...]:
    return (named["dim"],)


def _dims(named: Named) -> tuple[int, ...]:
    dim = named["dim"]
    if isinstance(dim, int):
        return (dim,)
    return tuple(dim) if dim else tuple(range(named["self"].dim()))


def _last(named: Named) -> tuple[int, ...]:
    return tuple(range(-len(named["normalized_shape"]), 0))


def _spatial(named: Named) -> tuple[int, ...]:
    return (-2, -1)


def _behind_channel(named: Named) -> tuple[int, ...]:
    return tuple(range(2, named["input"].dim()))


def _run_of_group(named: Named) -> int:
    named = wide.leaf_of_group_norm(named)
    return int(named["input"].numel() // max(named["N"] * named["group"], 1))


def _always(named: Named) -> bool:
    return True


def _power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _mean_is_exact(named: Named) -> bool:
    x = named["self"]
    return _power_of_two(math.prod(x.shape[d] for d in _dims(named)))


def _window_is_exact(named: Named) -> bool:
    divisor = named["divisor_override"]
    padded = any(named["padding"]) or named["ceil_mode"]  # then windows at the border have other divisors
    return (
        _power_of_two(divisor)
        if divisor
        else not padded and _power_of_two(math.prod(_pair(named["kernel_size"])))
    )


def _adaptive_is_exact(named: Named) -> bool:
    height, width = named["self"].shape[-2:]
    out_h, out_w = named["output_size"]
    return height % out_h == 0 and width % out_w == 0 and _power_of_two(height // out_h * (width // out_w))


def _normalized_is_exact(named: Named) -> bool:
    return _power_of_two(math.prod(named["normalized_shape"]))


def _group_is_exact(named: Named) -> bool:
    return _power_of_two(_run_of_group(named))


def _product_is_exact(named: Named) -> bool:
    return named["exponent"] in (2, 3) if isinstance(named["exponent"], (int, float)) else False


def _sum_is_exact(named: Named) -> bool:
    """alpha's integers and halves keep the sums of small integers on the grid of the probes."""
    return float(named["alpha"] * 2).is_integer() and abs(named["alpha"]) <= 64


def _pair(value: list[int]) -> list[int]:
    return list(value) * 2 if len(value) == 1 else list(value)


# ---- the table --------------------------------------------------------------------------------------------------------------------

_BATCH_NORM = Operator("bounded", _of_batch_norm, _channels, _behind_channel)
_MATRIX = Operator("bounded", _of_magnitudes, _whole, None, _always, vendor=True)
_CONVOLUTION = Operator("bounded", _of_magnitudes, _channels, None, _always, vendor=True)
_NARROW_CONVOLUTION = Operator(
    "bounded", _of_convolved_magnitudes, _channels, None, _always, wide=wide.convolve, vendor=True
)
_ATTENTION = Operator("bounded", _of_values, _plane, None, None, vendor=True)

OPERATORS: dict[str, Operator] = {
    "copy": Operator("moves"),
    "cat": Operator("moves"),
    "where": Operator("moves"),
    "masked_fill": Operator("moves"),
    "neg": Operator("rounds"),  # some ways to negate keep a NaN's sign
    "upsample_nearest2d": Operator("moves", lines=_spatial),
    "add": Operator("rounds", _of_sum),  # with alpha: bounded, see `operator`
    "sub": Operator("rounds", _of_sum),
    "mul": Operator("rounds"),
    "div": Operator("rounds"),
    "relu": Operator("selects"),
    "clamp": Operator("selects"),
    "clamp_min": Operator("selects"),
    "hardtanh": Operator("selects"),
    "amax": Operator("selects", lines=_dims),
    "max_pool2d_with_indices": Operator("selects", lines=_spatial),
    "max_pool2d": Operator("selects", lines=_spatial),
    "topk": Operator("ranks", lines=_dim),
    "sort": Operator("ranks", lines=_dim),
    "silu": Operator("bounded"),
    "gelu": Operator("bounded", wide=wide.gelu),
    "sigmoid": Operator("bounded"),
    "tanh": Operator("bounded"),
    "exp": Operator("bounded"),
    "rsqrt": Operator("bounded"),
    "pow": Operator("bounded", probe=_product_is_exact),
    "_softmax": Operator("bounded", _of_itself, _along, _dim),
    "_log_softmax": Operator("bounded", _of_log_softmax, _along, _dim),
    "native_layer_norm": Operator(
        "bounded", _of_layer_norm, _normalized, _last, _normalized_is_exact, statistics=True
    ),
    "native_group_norm": Operator(
        "bounded",
        _of_group_norm,
        _groups,
        _run_of_group,
        _group_is_exact,
        statistics=True,
        wide=wide.normalize_groups,
    ),
    "group_norm": Operator(
        "bounded", _of_group_norm, _groups, _run_of_group, _group_is_exact, wide=wide.normalize_groups_alone
    ),
    "_fused_rms_norm": Operator("bounded", _of_itself, _normalized, _last, statistics=True),
    "native_batch_norm": _BATCH_NORM,
    "cudnn_batch_norm": Operator(
        "bounded", _of_batch_norm, _channels, _behind_channel, wide=wide.normalize_channels
    ),
    "_native_batch_norm_legit": _BATCH_NORM,
    "_native_batch_norm_legit_no_training": _BATCH_NORM,
    "mean": Operator("bounded", _of_magnitudes, _whole, _dims, _mean_is_exact, adds="mean"),
    "sum": Operator("bounded", _of_magnitudes, _whole, _dims, _always, adds="sum"),
    "cumsum": Operator("bounded", _of_magnitudes, _along, _dim, _always),
    "avg_pool2d": Operator("bounded", _of_magnitudes, _plane, _spatial, _window_is_exact),
    "_adaptive_avg_pool2d": Operator(
        "bounded", _of_magnitudes, _plane, _spatial, _adaptive_is_exact, adds="mean"
    ),
    "adaptive_avg_pool2d": Operator(
        "bounded", _of_magnitudes, _plane, _spatial, _adaptive_is_exact, adds="mean"
    ),
    "upsample_bilinear2d": Operator("bounded", _of_magnitudes, _plane, _spatial, _always),
    # Vendor operators: no template serves them, authored candidates may.
    "mm": _MATRIX,
    "addmm": _MATRIX,
    "bmm": _MATRIX,
    "mkldnn_convolution": _NARROW_CONVOLUTION,
    "cudnn_convolution": _NARROW_CONVOLUTION,
    "_slow_conv2d_forward": _CONVOLUTION,
    "slow_conv3d_forward": _CONVOLUTION,
    "slow_conv_dilated2d": _CONVOLUTION,
    "slow_conv_dilated3d": _CONVOLUTION,
    "slow_conv_transpose2d": _CONVOLUTION,
    "slow_conv_transpose3d": _CONVOLUTION,
    "_conv_depthwise2d": _CONVOLUTION,
    "conv_depthwise3d": _CONVOLUTION,
    "_scaled_dot_product_flash_attention_for_cpu": _ATTENTION,
    "_scaled_dot_product_flash_attention": _ATTENTION,
    "_scaled_dot_product_efficient_attention": _ATTENTION,
    "_scaled_dot_product_cudnn_attention": _ATTENTION,
}


def operator(overload: Overload, named: Named) -> Operator:
    """Return the line for this call.

    Raises:
        RefereeFault: the table has none; nothing is judged without a rule.
    """
    line = OPERATORS.get(overload.operator)
    if line is None:
        raise RefereeFault(
            f"judge `{overload.name}`: no numeric rule for this operator",
            hint="add a line to kernelforge/referee/operators.py",
        )
    if line.kind == "ranks" and named.get("stable"):
        return Operator("selects", lines=_dim)  # nothing is left open: the indices are eager's
    if line.scale is _of_sum:
        # a + alpha b: eager contracts to one fma in its vector path and not in its scalar path, so one of the two is never bitwise equal.
        return line if named["alpha"] in (1, -1) else Operator("bounded", _of_sum, probe=_sum_is_exact)
    return line
