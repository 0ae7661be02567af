"""T7: what must hold between a candidate's own outputs, or within one, whatever the reference says.

    rows       rows that do not depend on each other change places, and so do the outputs, bit for bit: nothing leaks from row to row
    shift      a softmax of rows to which a number was added that every type adds exactly is the same within T2
    invariants a softmax's rows sum to 1, a norm's have mean 0 and variance 1, a maximum is one of its window

It owns the inputs of these cases (kind `metamorphic`: number 0 is the variant's first input with rows changed, 1 and 2 are integers and the same shifted)
and what is looked at. Finalists alone see them. Constants: `rule.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .bounds import Bound, Compared, Finding, place_of
from .draws import Slot
from .rule import ALIGN_BYTES, INVARIANT_RATIO, INVARIANT_UNITS, SHIFT, UNIT
from .wide import leaf_of_group_norm

Named = dict[str, Any]
Outputs = Sequence[torch.Tensor]
KIND = "metamorphic"
ROWS, UNSHIFTED, SHIFTED = 0, 1, 2

_ALONG = {"_softmax", "_log_softmax", "cumsum", "topk", "sort"}
_SHIFTS = {"_softmax", "_log_softmax"}
_NORMALIZED = {"native_layer_norm", "_fused_rms_norm"}
_REDUCTIONS = {"mean", "sum", "amax"}
_BATCHES = {
    "group_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
}  # fmt: skip
_PLANES = {
    "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d", "max_pool2d", "max_pool2d_with_indices", "upsample_nearest2d",
    "upsample_bilinear2d",
}  # fmt: skip


def _reduced(named: Named, rank: int) -> set[int]:
    dim = named["dim"]
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    return {d % max(rank, 1) for d in dims}


def _free(operator: str, named: Named, rank: int) -> dict[int, int]:
    """Return the dimensions of the first input whose entries do not depend on each other, each with the outputs' dimension that follows it."""
    if operator in _ALONG:
        return {d: d for d in range(rank) if d != named["dim"] % max(rank, 1)}
    if operator in _NORMALIZED:
        return {d: d for d in range(rank - len(named["normalized_shape"]))}
    if operator in _BATCHES:
        return {0: 0}
    if operator in _PLANES:
        return {d: d for d in range(rank - 2)}
    if operator in _REDUCTIONS:
        gone = _reduced(named, rank)
        return {
            d: d if named["keepdim"] else d - sum(g < d for g in gone) for d in range(rank) if d not in gone
        }
    return {}


@dataclass(frozen=True)
class _Swap:
    """Entries of a dimension that change places in blocks of `step`."""

    dim: int
    out: int
    step: int

    def apply(self, t: torch.Tensor, dim: int) -> torch.Tensor:
        if t.numel() == 0:
            return t
        number = torch.arange(t.shape[dim], device=t.device)
        other = number ^ self.step
        return t.index_select(dim, torch.where(other < t.shape[dim], other, number))


class Probes:
    """The metamorphic probes of one call.

    Args:
        operator: its name without the overload.
        named: arguments by name; tensors may be of the device `meta`.
        slot: the first input.
        outputs: descriptors of the outputs.
    """

    def __init__(self, operator: str, named: Named, slot: Slot, outputs: Sequence[dict[str, Any]]) -> None:
        self._operator, self._slot = operator, slot
        free = {} if slot.overlaps else _free(operator, named, len(slot.sizes))
        swaps = [s for d, o in free.items() if (s := self._swap(d, o, outputs)) is not None]
        # The dimension in which most change places.
        self._swapped = max(swaps, key=lambda s: slot.sizes[s.dim] // s.step, default=None)
        self._invariant = _INVARIANTS.get(operator)
        self._shifts = operator in _SHIFTS and slot.dtype.is_floating_point

    def _swap(self, dim: int, out: int, outputs: Sequence[dict[str, Any]]) -> _Swap | None:
        """Return the smallest step over which a row's alignment stays what it was; None where there are too few rows."""
        slot, step = self._slot, 1
        strides = [slot.strides[dim] * slot.dtype.itemsize]
        if self._operator not in _REDUCTIONS:  # whose outputs are one element a row
            strides.append(outputs[0]["strides"][out] * getattr(torch, outputs[0]["dtype"]).itemsize)
        while step < slot.narrow[dim]:
            if all(step * s % ALIGN_BYTES == 0 for s in strides):
                return _Swap(dim, out, step)
            step *= 2
        return None

    @property
    def numbers(self) -> list[int]:
        """Which cases there are."""
        found = [ROWS] if self._swapped or self._invariant else []
        return found + ([UNSHIFTED, SHIFTED] if self._shifts else [])

    def rows(self, first: torch.Tensor) -> torch.Tensor:
        """Return the first input of case ROWS. first: that of the variant's first case."""
        return (
            self._slot.place(self._swapped.apply(self._narrow(first), self._swapped.dim))
            if self._swapped
            else first
        )

    def shifted(self, integers: torch.Tensor) -> torch.Tensor:
        """Return the first input of case SHIFTED. integers: that of UNSHIFTED."""
        return self._slot.place(self._narrow(integers) + SHIFT)

    def _narrow(self, t: torch.Tensor) -> torch.Tensor:
        return t[tuple(slice(0, n) for n in self._slot.narrow)]

    def check(
        self,
        number: int,
        named: Named,
        outputs: Outputs,
        bounds: Sequence[Compared],
        base: Outputs,
        base_bounds: Sequence[Compared],
    ) -> Finding:
        """Return what a run of a case came to beside the comparison with its reference.

        base: the candidate's outputs for the case that this one is held against: the variant's first for ROWS, UNSHIFTED for SHIFTED.
        """
        if number == SHIFTED:
            return self._same_shifted(outputs, base, base_bounds)
        if number == ROWS and self._swapped:
            for i, bound in enumerate(bounds):
                expected = self._swapped.apply(base[i], self._swapped.out)
                eager = self._swapped.apply(base_bounds[i].eager, self._swapped.out)
                if bool((~_same(bound.eager, eager)).any()):
                    continue  # eager's own bits depend on the place
                words = f"T7 rows: entries of dimension {self._swapped.dim} changed places over {self._swapped.step}, and this is not what was there"
                finding = _found(bound.name, words, outputs[i], expected, ~_same(outputs[i], expected))
                if finding.status != "ok":
                    return finding
        return self._invariants(named, outputs, bounds) if number == ROWS else Finding("ok")

    def _same_shifted(self, outputs: Outputs, base: Outputs, base_bounds: Sequence[Compared]) -> Finding:
        bound = base_bounds[0]
        assert isinstance(bound, Bound)
        error = (outputs[0].double() - base[0].double()).abs()
        words = f"T7 shift: {SHIFT:g} was added to every element of the row, and the result moved"
        return _found(bound.name, words, outputs[0], base[0], ~(error <= 2 * bound.allowed))

    def _invariants(self, named: Named, outputs: Outputs, bounds: Sequence[Compared]) -> Finding:
        if self._invariant is None:
            return Finding("ok")
        u = UNIT.get(outputs[0].dtype, 0.0)
        ours = self._invariant(named, [o.double() if o.is_floating_point() else o for o in outputs])
        eagers = self._invariant(
            named, [b.eager.double() if b.eager.is_floating_point() else b.eager for b in bounds]
        )
        for (words, value, truth, size), (_, usual, standard, _) in zip(ours, eagers, strict=True):
            counts = torch.isfinite(truth) & torch.isfinite(usual) & torch.isfinite(standard)
            counts &= torch.isfinite(size)
            off = torch.where(counts, (usual - standard).abs(), 0.0)
            allowed = INVARIANT_RATIO * off.max() + INVARIANT_UNITS * u * size if off.numel() else off
            bad = counts & ~((value - truth).abs() <= allowed)
            finding = _found(bounds[0].name, f"T7 invariant: {words}", value, truth, bad, "rows")
            if finding.status != "ok":
                return finding
        return Finding("ok")


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (torch.isnan(a) & torch.isnan(b)) if a.is_floating_point() else a == b


def _found(
    name: str,
    words: str,
    out: torch.Tensor,
    expected: torch.Tensor,
    bad: torch.Tensor,
    what: str = "elements",
) -> Finding:
    if not bool(bad.any()):
        return Finding("ok")
    at = int(bad.reshape(-1).int().argmax())
    place = place_of(at, bad.shape)
    seen = f"at {place}: {out.reshape(-1)[at].item():.9g} (expected {expected.expand(bad.shape).reshape(-1)[at].item():.9g})"
    return Finding(
        "wrong_value", f"{name}: {words}: {int(bad.sum())} of {bad.numel()} {what}, {seen}", float("inf")
    )


# ---- invariants: (words, value, truth, size) a row, in float64; limits are in u times size ------------------------------------------------

Invariant = list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]


def _sums_to_one(named: Named, outputs: Outputs) -> Invariant:
    total = outputs[0].sum(named["dim"])
    return [("a row sums to 1", total, torch.ones_like(total), torch.ones_like(total))]


def _exponentials_sum_to_one(named: Named, outputs: Outputs) -> Invariant:
    total, one = outputs[0].exp().sum(named["dim"]), torch.ones_like(outputs[0].sum(named["dim"]))
    # An error of u in a logarithm of size l is one of u l in its exponential.
    return [("the exponentials of a row sum to 1", total, one, 1 + outputs[0].abs().amax(named["dim"]))]


def _moments(
    x: torch.Tensor, z: torch.Tensor, more: torch.Tensor, eps: float, centred: bool, dims: tuple[int, ...]
) -> Invariant:
    """z: the output without its affine part; more: what that part adds to the size of a rounding."""
    x = x.double()
    mean = x.mean(dims, keepdim=True) if centred else torch.zeros((), dtype=x.dtype, device=x.device)
    variance = (x - mean).square().mean(dims)
    truth = variance / (variance + eps)
    terms = (x.abs() + (x.abs().mean(dims, keepdim=True) if centred else 0.0)) / (
        variance + eps
    ).sqrt().reshape([*variance.shape, *([1] * len(dims))])
    size = terms + more
    found = [
        (
            "the mean of squares is var / (var + eps)",
            z.square().mean(dims),
            truth,
            2 * (z.abs() * size).mean(dims) + truth,
        )
    ]
    if centred:
        mean_of = z.mean(dims)
        found.append(("the mean is 0", mean_of, torch.zeros_like(mean_of), size.mean(dims)))
    return found


def _plain(
    out: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output without weight and bias, and the size of the bias beside it; NaN where a weight is near 0, which leaves the row out."""
    b = torch.zeros((), dtype=out.dtype, device=out.device) if bias is None else bias.double()
    if weight is None:
        return out - b, b.abs().expand_as(out)
    w = weight.double()
    w = torch.where(w.abs() < 0.01 * w.square().mean().sqrt(), torch.nan, w)
    return (out - b) / w, (b / w).abs().expand_as(out)


def _layer_norm(named: Named, outputs: Outputs) -> Invariant:
    rank = len(named["normalized_shape"])
    dims = tuple(range(-rank, 0))
    z, more = _plain(outputs[0], named["weight"], named.get("bias"))
    return _moments(named["input"], z, more, named["eps"], True, dims)


def _rms_norm(named: Named, outputs: Outputs) -> Invariant:
    x, eps = named["input"], named["eps"]
    if eps is None:
        eps = torch.finfo(torch.float64 if x.dtype is torch.float64 else torch.float32).eps
    z, more = _plain(outputs[0], named["weight"], None)
    return _moments(x, z, more, eps, False, tuple(range(-len(named["normalized_shape"]), 0)))


def _group_norm(named: Named, outputs: Outputs) -> Invariant:
    named = leaf_of_group_norm(named)
    x, n, groups = named["input"], named["N"], named["group"]
    channel = (1, -1, *([1] * (x.dim() - 2)))
    weight, bias = (None if p is None else p.reshape(channel) for p in (named["weight"], named["bias"]))
    z, more = _plain(outputs[0], weight, bias)
    flat = [t.reshape(n, groups, -1) for t in (x, z, more)]
    return _moments(flat[0], flat[1], flat[2], named["eps"], True, (-1,))


def _member_of_window(named: Named, outputs: Outputs) -> Invariant:
    x = named["self"].double()
    if len(outputs) < 2:
        return []
    index = outputs[1].flatten(-2)
    inside = index.clamp(0, x.shape[-1] * x.shape[-2] - 1)
    taken = torch.where(inside == index, x.flatten(-2).gather(-1, inside), torch.inf).reshape(
        outputs[0].shape
    )
    return [("a maximum is the element that its index names", taken, outputs[0], torch.zeros_like(taken))]


def _member_of_row(named: Named, outputs: Outputs) -> Invariant:
    x = named["self"].double()
    gone = sorted(_reduced(named, x.dim()))
    out = outputs[0]
    if not named["keepdim"]:
        for d in gone:
            out = out.unsqueeze(d)
    is_one = (x == out).any(tuple(gone)) if gone else x == out
    out = out.sum(tuple(gone))
    return [("a maximum is one of its row", torch.where(is_one, out, torch.inf), out, torch.zeros_like(out))]


_INVARIANTS: dict[str, Callable[[Named, Outputs], Invariant]] = {
    "_softmax": _sums_to_one,
    "_log_softmax": _exponentials_sum_to_one,
    "native_layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "native_group_norm": _group_norm,
    "_fused_rms_norm": _rms_norm,
    "max_pool2d_with_indices": _member_of_window,
    "amax": _member_of_row,
}
