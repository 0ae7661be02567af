"""T2x: every input of a unary pointwise operator, so that no value is left to the luck of a draw.

It owns which calls are unary and pointwise, and the order in which bits are gone through. In a 16-bit type all 65,536 inputs are a case or a few of each
judgement (`patterns`, in place of the special values, which are among them). A finalist is swept besides (`sweep`), in the user's process and in chunks:
over all inputs of float32 on a device, over every EXHAUSTIVE_STRIDE-th on the host, over as many as EXHAUSTIVE_CALLS calls of a small tensor hold, and over
what a small 16-bit tensor's cases left out.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .bounds import Bound, Finding, compare
from .calls import map_tensors, with_tensors
from .groups import Rows
from .reference import refer
from .rule import (
    EXHAUSTIVE_CALLS,
    EXHAUSTIVE_CHUNK,
    EXHAUSTIVE_GROUP,
    EXHAUSTIVE_GROUP_16,
    EXHAUSTIVE_STRIDE,
    HALF_BINADE,
)

if TYPE_CHECKING:
    from .cases import Variant
    from .draws import Slot

ALL_16: int = 1 << 16
CASES = 2  # of a search, as many as the special values would take; what they leave is a finalist's
_ODD = 40503  # times a number: neighbours in memory are far apart in value, and each of 65,536 numbers comes once
_WORD = {2: torch.int16, 4: torch.int32}

_POINTWISE = {
    "relu", "clamp", "clamp_min", "hardtanh", "neg", "silu", "gelu", "sigmoid", "tanh", "exp", "rsqrt", "pow", "copy",
    "add", "sub", "mul", "div",
}  # fmt: skip


def unary(variant: Variant) -> Slot | None:
    """Return the only slot that a pointwise call reads, if it is a float of 16 or 32 bits and gives each element of the output one of its own."""
    read = [s for s in variant.slots if s.read]
    if variant.overload.operator not in _POINTWISE or len(read) != 1:
        return None
    slot, outputs = read[0], variant.call["outputs"]
    same = len(outputs) == 1 and outputs[0]["sizes"] == slot.sizes
    fit = slot.dtype.is_floating_point and slot.dtype.itemsize in _WORD
    return slot if same and fit and not slot.overlaps and slot.numel else None


def cases_of(slot: Slot) -> int:
    """Return how many cases show a 16-bit slot all of its inputs; 0 for wider ones, which no case can."""
    return math.ceil(ALL_16 / math.prod(slot.narrow)) if slot.dtype.itemsize == 2 else 0


def patterns(slot: Slot, number: int, seed: int, device: str) -> torch.Tensor:
    """Return the values of case `number`: as many of all bit patterns as the slot has room for, each case others, shifted by the seed."""
    count = math.prod(slot.narrow)
    at = torch.arange(number * count, (number + 1) * count, dtype=torch.int64, device=device)
    return slot.place(_as(slot.dtype, at * _ODD + zlib.crc32(b"%d" % seed)).reshape(slot.narrow))


def _as(dtype: torch.dtype, bits: torch.Tensor) -> torch.Tensor:
    """Return whole numbers as the values whose bits they are; what does not fit the width is cut."""
    width = 8 * dtype.itemsize
    low = bits & ((1 << width) - 1)
    signed = torch.where(low >= 1 << (width - 1), low - (1 << width), low)
    return signed.to(_WORD[dtype.itemsize]).view(dtype)


@dataclass(frozen=True)
class Swept:
    """What a sweep came to, over how many inputs of how many."""

    finding: Finding
    inputs: int
    of: int


def sweep(variant: Variant, run: Callable[[list[Any]], list[torch.Tensor]]) -> Swept | None:
    """Hold a finalist against eager on all inputs of its operator; None where there is nothing that its cases have not shown.

    run: calls the finalist with arguments in schema order and returns its outputs.
    """
    slot = unary(variant)
    if slot is None or 0 < cases_of(slot) <= CASES:
        return None
    target = variant.place.target
    of = 1 << (8 * slot.dtype.itemsize)
    stride, group = _strides(slot, target)
    start = zlib.crc32(b"%d" % variant.seed) % stride
    seen, worst, exact = 0, 0.0, True
    total = math.ceil((of - start) / stride)
    chunks = math.ceil(total / EXHAUSTIVE_CHUNK[target])
    size = math.ceil(total / chunks / group) * group
    for first in range(start, of, size * stride):
        # The last chunk goes on from the beginning: bits beyond the width are cut, and every group is whole.
        bits = torch.arange(first, first + size * stride, stride, device=variant.place.device)
        x = _as(slot.dtype, bits)
        finding = compare([_bound(variant, slot, x, group)], [_through(variant, slot, x, run)])
        seen += min(size, -(-(of - first) // stride))
        if finding.status != "ok":
            at = f"among the inputs from {_hex(bits[0], slot)} to {_hex(bits[-1], slot)}, in the order of their bits"
            return Swept(
                Finding(finding.status, f"T2x {at}: {finding.detail}", finding.worst, gate="exhaustive"),
                seen,
                of,
            )
        worst, exact = max(worst, finding.worst), exact and finding.exact
    return Swept(Finding("ok", worst=worst, exact=exact), seen, of)


def _strides(slot: Slot, target: str) -> tuple[int, int]:
    """Return which part of a slot's inputs a sweep takes, every n-th, and how many of them share an error."""
    if slot.dtype.itemsize == 2:
        return 1, EXHAUSTIVE_GROUP_16
    least = EXHAUSTIVE_STRIDE if target == "host" else 1
    stride = max(least, _prime((1 << 32) // (EXHAUSTIVE_CALLS * math.prod(slot.narrow))))
    half = 1 << (HALF_BINADE // stride).bit_length() - 1 if stride <= HALF_BINADE else 1
    return stride, max(EXHAUSTIVE_GROUP_16, min(EXHAUSTIVE_GROUP[target], half))


def _prime(least: int) -> int:
    """Return the first prime that is not below a number; 1 for one that needs none.

    Example:
        >>> _prime(0), _prime(1), _prime(2), _prime(1020), _prime(131072)
        (1, 1, 2, 1021, 131101)
    """
    n = max(least, 1)
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def _hex(bits: torch.Tensor, slot: Slot) -> str:
    width = 2 * slot.dtype.itemsize
    return f"0x{int(bits) % 16**width:0{width}x}"


def _bound(variant: Variant, slot: Slot, x: torch.Tensor, group: int) -> Bound:
    """Return the bound of the same call on a flat tensor: a pointwise operator does not ask for shapes."""
    flat = [x if s is slot else torch.empty_like(x, dtype=s.dtype) for s in variant.slots]
    reference = refer(variant.overload, variant.arguments(flat))
    wide = reference.wide[0]
    groups = None if wide is None else Rows((len(x) // group, group), (1,))
    return Bound(
        "output 0", reference.kind[0], reference.eager[0], wide, reference.scale[0], groups, off=variant.off
    )


def _through(
    variant: Variant, slot: Slot, x: torch.Tensor, run: Callable[[list[Any]], list[torch.Tensor]]
) -> torch.Tensor:
    """Return the finalist's outputs for all of x, in as many calls of its own shape as they take; the last one is filled up from the start."""
    count = math.prod(slot.narrow)
    outputs = []
    for first in range(0, len(x), count):
        part = x[first : first + count]
        if len(part) < count:
            part = torch.cat([part, x[:1].expand(count - len(part))])
        values = slot.place(part.reshape(slot.narrow))
        tensors = [values if s is slot else s.zeros(variant.place.device) for s in variant.slots]
        out = run(with_tensors(variant.call, tensors, variant.arguments(tensors)))[0]
        outputs.append(_narrowed(out, slot).reshape(-1))
    return torch.cat(outputs)[: len(x)]


def _narrowed(out: torch.Tensor, slot: Slot) -> torch.Tensor:
    """Return the output without the repetitions that a dimension of stride 0 of the input makes."""
    for d, (n, all_) in enumerate(zip(slot.narrow, slot.sizes, strict=True)):
        if n != all_:
            out = out.narrow(d, 0, n)
    return out


def through_dispatcher(extension: Any, opened: Any, name: str) -> Callable[[list[Any]], list[torch.Tensor]]:
    """Return a `run` for a plan that is served now. A call that it does not serve is the caller's fault, never taken for a comparison."""

    def run(arguments: list[Any]) -> list[torch.Tensor]:
        before = opened.hits
        outputs = extension.call(name, map_tensors(arguments, lambda t: t))
        if opened.hits != before + 1:
            raise NotServed(name)
        return [o for o in outputs if isinstance(o, torch.Tensor)]

    return run


class NotServed(Exception):
    """The dispatcher went to eager where a plan was to be compared; the text is the overload's name."""
