"""References in float64 that do not cancel, where the overload itself does, or takes no float64 (`operators.py` names them in its column `wide`).

It owns algorithms on named arguments, and refuses rules: what an output may be is in `operators.py` and `rule.py`.
"""

from __future__ import annotations

import math
from typing import Any

import torch

Named = dict[str, Any]
Outputs = list[torch.Tensor]


def leaf_of_group_norm(named: Named) -> Named:
    """Return the arguments of a group norm by its leaf's names; `group_norm`, the composite, has a name for the groups alone."""
    if "num_groups" not in named:
        return named
    n, c, *plane = named["input"].shape
    return {**named, "N": n, "C": c, "HxW": math.prod(plane), "group": named["num_groups"]}


def gelu(named: Named) -> Outputs:
    """1 + erf(z) and 1 + tanh(z) lose every digit for negative z, in float64 too; erfc(-z) and 2 sigmoid(2 z) lose none."""
    x = named["self"]
    if named["approximate"] == "none":
        return [0.5 * x * torch.special.erfc(-x * math.sqrt(0.5))]
    return [x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))]


def convolve(named: Named) -> Outputs:
    """The vendor's convolutions take no float64; torch's own does."""
    x, spatial = named["self"], named["weight"].dim() - 2
    sizes = (named["stride"], named["padding"], named["dilation"])
    bias = named.get("bias")
    return [
        torch.ops.aten.convolution(
            x, named["weight"], bias, *sizes, False, [0] * spatial, named.get("groups", 1)
        )
    ]


def normalize_channels(named: Named) -> Outputs:
    """The vendor's batch norm for inference, in torch's own words: one more output there holds what training would need."""
    statistics = (named["running_mean"], named["running_var"])
    return list(
        torch.ops.aten.native_batch_norm(
            named["input"], named["weight"], named["bias"], *statistics, False, 0.0, named["epsilon"]
        )
    )


def normalize_groups(named: Named) -> Outputs:
    """On channels_last torch takes the variance in one pass, which cancels in float64 too: a constant row of -1e9 came out with a variance of 55."""
    given = leaf_of_group_norm({**named, "input": named["input"].contiguous()})
    names = ("input", "weight", "bias", "N", "C", "HxW", "group", "eps")
    return list(torch.ops.aten.native_group_norm(*(given[n] for n in names)))


def normalize_groups_alone(named: Named) -> Outputs:
    """The composite's: without the statistics."""
    return normalize_groups(named)[:1]
