"""The comparison of one output with its reference: T0 structure, T1 exact classes, T2 element by element, T3 together, T4 cap, T6 exact probes.

Made once per case (`Bound`), so that a candidate costs one pass when it equals eager bit for bit and a few when it does not. All of it is torch
code on whole tensors; constants and their reasons are in `rule.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .doubts import words
from .groups import Buckets, Groups, Rows
from .operators import Kind, Operator
from .rule import ACCUMULATE, CAP, CAP_DEFAULTS, ENVELOPE, PROBE_GRID, ROUNDING, TERMS, UNIT
from .together import Together

Off = Collection[str]
"""Names of gates that a test has turned off: `values` (T1 to T3), `cap` (T4), `exact` (T6), ..."""

_HALVES = (torch.float16, torch.bfloat16)
_SQUARES_FIT = 1e15  # and sums of them
_LARGEST = float(torch.finfo(torch.float32).max)
_INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Finding:
    """How one comparison ended.

    status  `ok`, `wrong_shape` or `wrong_value`.
    worst   largest error / allowed error; 0 where nothing differs, above 1 where it fails.
    exact   every bit as eager.
    gate    the gate that it failed at, by the names of go/judge/gate.go; "" if it passed.
    """

    status: str
    detail: str = ""
    worst: float = 0.0
    exact: bool = False
    gate: str = ""


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as integers of the same width."""
    return tensor.view(_INTEGER[tensor.element_size()])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors of one type and shape hold the same bits, whatever their strides."""
    return torch.equal(*words(bits(a), bits(b)))


class Bound:
    """What one output of one case may be.

    Args:
        name: of the output, for messages.
        kind: the rule.
        eager: eager's output.
        wide: the float64 reference, None where eager alone decides.
        scale: S in float64, None for a pointwise operator.
        groups: which elements share an error.
        aggregate: whether T3 applies: on data like the model's. Special values break its statistics.
        probe: whether T6 applies: the inputs were integers small enough to be exact.
        statistic: a mean or deviation that a norm saves. Of a row with an infinity, eager's recurrence makes NaN and the definition an infinity.
        narrow: keep the reference of a half type in float32, whose rounding is 2^-13 of the type's own: less memory, and candidates are compared in
            half the time. Default: on a device, where memory and its speed are what limits.
        off: gates that a test has turned off.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        eager: torch.Tensor,
        wide: torch.Tensor | None = None,
        scale: torch.Tensor | None = None,
        groups: Groups | None = None,
        *,
        aggregate: bool = False,
        probe: bool = False,
        statistic: bool = False,
        narrow: bool | None = None,
        off: Off = (),
    ) -> None:
        self.name, self.kind, self.eager, self._statistic = name, kind, eager, statistic
        self._probe, self._held = False, 0
        self._values, self._capped = "values" not in off, "cap" not in off
        if kind == "bounded" and eager.numel():
            assert wide is not None and groups is not None
            self._bound(wide, scale, groups, aggregate and self._values)
            self._probe = (
                probe
                and "exact" not in off
                and torch.equal((wide / PROBE_GRID).round() * PROBE_GRID, eager.double())
            )
            if (eager.is_cuda if narrow is None else narrow) and eager.dtype in _HALVES:
                self._narrow()
            self._held = self._wide.nbytes + self._allowed.nbytes + (groups.nbytes if aggregate else 0)

    def _bound(self, wide: torch.Tensor, scale: torch.Tensor | None, groups: Groups, aggregate: bool) -> None:
        dtype, eager = self.eager.dtype, self.eager.double()
        u, info = UNIT[dtype], torch.finfo(dtype)
        finite = torch.isfinite(eager)
        self._finite = None if bool(finite.all()) else finite
        # Where the reference is not finite and eager is, eager decides.
        wide = torch.where(torch.isfinite(wide) | ~finite, wide, eager)
        magnitude = wide.abs()
        terms = magnitude if scale is None else torch.where(torch.isfinite(scale), scale, magnitude)
        self._wide = wide
        usual = finite & torch.isfinite(wide.to(dtype))

        error = torch.where(usual, (eager - wide).abs(), 0.0)
        allowed = groups.expand(groups.amax(error))
        for size in (magnitude,) if scale is None else (magnitude, terms):
            relative = torch.where(usual & (size > 0), error / size, 0.0)
            allowed = torch.minimum(allowed, groups.expand(groups.amax(relative)) * size)
        # Never below eager's own error: where R and S are 0 the ratios say nothing, and eager's index in float may be off by a rounding.
        allowed = torch.maximum(allowed, error)
        roundings = ROUNDING[dtype] * u * magnitude
        if scale is not None:
            roundings += TERMS[dtype] * ACCUMULATE[dtype] * terms
        relative_cap, absolute_cap = CAP_DEFAULTS[dtype]
        cap = torch.maximum(CAP * (absolute_cap + relative_cap * magnitude), allowed + roundings)
        allowed = ENVELOPE[dtype] * allowed + roundings
        # What T2 alone would allow, kept where the cap is the lower one somewhere: it says which of the two an error fails.
        lower = self._capped and bool((cap < allowed).any())
        self._uncapped = allowed if lower and self._values else None
        if self._capped:
            allowed = torch.minimum(allowed, cap) if self._values else cap
        elif not self._values:
            allowed = torch.full_like(allowed, math.inf)
        # Two steps of the subnormal range, whose roundings are absolute; all of it where eager flushes or blurs it, which cannot be seen in float64.
        steps = info.tiny * (4 * u)
        blurred = dtype is torch.float64 or bool((usual & (magnitude < info.tiny) & (error > steps)).any())
        allowed += info.tiny if blurred else steps
        self._allowed = allowed if dtype is torch.float64 else allowed.clamp(max=_LARGEST).float()
        # Where eager overflowed on the way to a result that its type can hold, it says nothing.
        self._silent = ~finite & torch.isfinite(wide.to(dtype)) if self._finite is not None else None
        self._together = Together(eager, wide, terms, usual, groups, dtype) if aggregate else None

    def _narrow(self) -> None:
        """Keep the reference in float32, where its squares fit there."""
        if float(self._wide.abs().max()) < _SQUARES_FIT:  # a NaN keeps it as it is
            self._wide = self._wide.float()
            if self._together is not None:
                self._together.narrow(self._wide)

    @property
    def best(self) -> torch.Tensor:
        """The most exact output there is: the correctly rounded reference where eager is finite, else eager's."""
        if self.kind != "bounded" or self.eager.numel() == 0:
            return self.eager
        return torch.where(torch.isfinite(self.eager), self._wide.to(self.eager.dtype), self.eager)

    @property
    def allowed(self) -> torch.Tensor:
        """What each element's error may be, where the kind is `bounded`."""
        return self._allowed

    @property
    def nbytes(self) -> int:
        """Memory that it holds, about."""
        return self.eager.nbytes + self._held

    def compare(self, out: torch.Tensor, run: Sequence[torch.Tensor] = ()) -> Finding:
        """Compare a candidate's output, in private memory, with what it may be. run: all outputs, which do not matter here."""
        eager = self.eager
        if out.dtype != eager.dtype or out.shape != eager.shape:
            found, expected = f"{out.dtype} {list(out.shape)}", f"{eager.dtype} {list(eager.shape)}"
            return Finding(
                "wrong_shape", f"{self.name}: {found} (expected {expected})", math.inf, gate="values"
            )
        if same_bits(out, eager):
            return Finding("ok", exact=True)
        if self._probe and not torch.equal(out, eager):
            return self._wrong(out, "T6 exact probe", out != eager, gate="exact")
        if self.kind == "bounded":
            return self._close(out) if self._values or self._capped else Finding("ok")
        return self._equal(out) if self._values else Finding("ok")

    def used(self, out: torch.Tensor) -> dict[str, float]:
        """Return by which part each test is used up that speaks of errors: `element` (T2 and T4), `group`, `rmse`, `bias` (T3); above 1 fails.

        For studies of the rule (bench/tolerance_pilot.py). Without the tests that know no more or less (T1, T6, masks).
        """
        if self.kind != "bounded" or out.numel() == 0:
            return {}
        error = torch.where(torch.isfinite(out) & torch.isfinite(self.eager), out.double() - self._wide, 0.0)
        found = {"element": float((error.abs() / self._allowed).nan_to_num(0.0).max())}
        return found if self._together is None else {**found, **self._together.used(error)}

    def _equal(self, out: torch.Tensor) -> Finding:
        if self.kind == "moves":
            different = bits(out) != bits(self.eager)
        else:
            different = ~(torch.isnan(self.eager) & torch.isnan(out))
            different &= bits(out) != bits(self.eager) if self.kind == "rounds" else out != self.eager
        return self._wrong(out, "T1 bit for bit", different) if bool(different.any()) else Finding("ok")

    def _close(self, out: torch.Tensor) -> Finding:
        if self._finite is None:
            error = out - self._wide
            low, high = torch.aminmax(error / self._allowed)
            worst = float(torch.maximum(-low, high))
            if worst <= 1.0:  # so all of it is finite: an infinity is further away, and a NaN is not below 1
                return self._as_one(out, error, worst)
        return self._looked_at(out)

    def _looked_at(self, out: torch.Tensor) -> Finding:
        """Compare what has infinities or NaN, or is wrong."""
        value = out.to(self._wide.dtype)
        if not bool(torch.isfinite(out).all()):
            # An infinity where the reference is near the end of the range counts as the number after the largest.
            beyond = torch.finfo(out.dtype).max * (1 + UNIT[out.dtype])
            value = out.double()
            value = torch.where(torch.isinf(value), value.sign() * beyond, value)
        error = value - self._wide
        ratio = error.abs().div_(self._allowed)
        if self._finite is not None and self._silent is not None:
            same = _same(out, self.eager) | _same(out, self._wide.to(out.dtype))
            if self._statistic:
                same |= ~torch.isfinite(out)
            ratio = torch.where(self._silent | (~self._finite & same), 0.0, ratio)
        worst = float(ratio.max())
        if not worst <= 1.0:  # NaN is bad
            bad = ~(ratio <= 1.0)
            finite = torch.isfinite(out)
            masks = bool((bad & (~finite if self._finite is None else finite != self._finite)).any())
            if masks:
                return self._wrong(out, "T0 NaN and infinities as eager", bad, ratio)
            beyond_t2 = self._uncapped is None or not bool((error.abs()[bad] <= self._uncapped[bad]).all())
            why, gate = ("T2 element", "values") if beyond_t2 and self._values else ("T4 cap", "cap")
            return self._wrong(out, why, bad, ratio, gate=gate)
        return self._as_one(out, error, worst)

    def _as_one(self, out: torch.Tensor, error: torch.Tensor, worst: float) -> Finding:
        """Compare what passes element by element. worst: error / allowed error."""
        wrong = self._together.compare(error) if self._together is not None else None
        if wrong is not None:
            return self._together_wrong(out, *wrong)
        return Finding("ok", worst=worst)

    def _wrong(
        self,
        out: torch.Tensor,
        why: str,
        bad: torch.Tensor,
        ratio: torch.Tensor | None = None,
        gate: str = "values",
    ) -> Finding:
        """Name the check, how many elements fail it, and the worst of them. Never more: feedback on a test is training data for the search."""
        severity = bad.double() if ratio is None else torch.where(torch.isnan(ratio), math.inf, ratio)
        order = severity.reshape(-1)  # a copy, where memory has another order
        at = int(order.argmax())
        worst = math.inf if ratio is None else float(order[at])
        times = f", {worst:.3g} times the allowed error" if worst < math.inf else ""
        detail = (
            f"{self.name}: {why}: {int(bad.sum())} of {out.numel()} elements, at {self._seen(out, at)}{times}"
        )
        return Finding("wrong_value", detail, worst, gate=gate)

    def _together_wrong(self, out: torch.Tensor, why: str, times: float, at: int) -> Finding:
        """Say the same of what elements fail only together, with the one that adds most."""
        return Finding(
            "wrong_value",
            f"{self.name}: {why}, {times:.3g} times what is allowed; most of it at {self._seen(out, at)}",
            times,
            gate="values",
        )

    def _seen(self, out: torch.Tensor, at: int) -> str:
        """Return an element's place, its value, what was expected and what is allowed. at: its number in the order of rows."""
        place = place_of(at, out.shape)
        here = tuple(place)
        eager = _show(self.eager[here])
        words = f"{place}: {_show(out[here])}"
        if self.kind != "bounded":
            return f"{words} (expected eager's {eager})"
        wide, allowed = self._wide[here], float(self._allowed[here])
        return f"{words} (expected {_show(wide)} +- {allowed:.3g}, eager {eager})"


def place_of(at: int, sizes: Sequence[int]) -> list[int]:
    """Return the place of the element with this number in the order of rows. torch.unravel_index imports sympy for it, 0.35 s of a process's first failure.

    Example:
        >>> place_of(5, (2, 3)), place_of(0, ())
        ([1, 2], [])
    """
    place: list[int] = []
    for size in reversed(sizes):
        at, here = divmod(at, size)
        place.insert(0, here)
    return place


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (torch.isnan(a) & torch.isnan(b))


def _show(value: torch.Tensor) -> str:
    return f"{value.item():.9g}" if value.is_floating_point() else str(value.item())


def grouping(
    line: Operator, named: dict[str, Any], index: int, wide: torch.Tensor, first: torch.Tensor
) -> Groups:
    """Return the groups of an output: by the table's axes, or by sign and binade of the first input for pointwise operators."""
    if line.axes is not None:
        return Rows(*line.axes(named, index, wide))
    return Buckets(first.expand(wide.shape))


class Compared(Protocol):
    """What an output can be held against: `Bound`, or `ranks.Ranks`, which looks at the other outputs of the run as well."""

    name: str
    eager: torch.Tensor

    @property
    def nbytes(self) -> int: ...
    @property
    def best(self) -> torch.Tensor: ...
    def compare(self, out: torch.Tensor, run: Sequence[torch.Tensor] = ()) -> Finding: ...


def compare(bounds: Sequence[Compared], outputs: Sequence[torch.Tensor]) -> Finding:
    """Return the worst finding over the outputs of one run, the first failure if there is one."""
    worst, exact = 0.0, True
    for bound, out in zip(bounds, outputs, strict=True):
        finding = bound.compare(out, outputs)
        if finding.status != "ok":
            return finding
        worst, exact = max(worst, finding.worst), exact and finding.exact
    return Finding("ok", worst=worst, exact=exact)
