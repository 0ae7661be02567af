"""T5: outputs that are known to be wrong, held against a variant's inputs before any candidate is. Each must fail on at least one of them.

A control that passes says that the inputs do not discriminate: they are made harder (`Variant.harden`), and if it still passes nothing is judged on
them. That is never waived. Eager itself has to pass. Where a control is what eager gives, on every input, it is no control of this operator (zeros of a clamp to 0, the copy of an
identity, two equal rows that change places): it is `equal`, and the evidence says so.

It owns the controls. They are made from eager's outputs alone and cost a comparison each, most of them on the first input only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .bounds import Compared, bits, compare
from .calls import Overload, map_tensors, tensors_among
from .reference import run_eager
from .rule import MANTISSA

FAILS, EQUAL, PASSES = "fails", "equal", "passes"
_ORDER = (EQUAL, FAILS, PASSES)  # of a control with several outputs, the last counts


@dataclass(frozen=True)
class Case:
    """One input of a variant with its reference. before: eager's outputs of the case before it, of the last one for the first."""

    overload: Overload
    arguments: Sequence[Any]
    bounds: Sequence[Compared]
    before: Sequence[torch.Tensor]

    def eager(self, i: int) -> torch.Tensor:
        return self.bounds[i].eager


Control = Callable[[Case, int, "_Shared"], torch.Tensor | None]


class _Shared:
    """What the controls of one case share: the call in the next lower precision, made when it is first asked for."""

    def __init__(self, case: Case, constant: list[float]) -> None:
        self._case, self.constant = case, constant
        self._lower: list[torch.Tensor] | None = None

    def lower(self, i: int) -> torch.Tensor:
        if self._lower is None:
            case = self._case
            self._lower = run_eager(
                case.overload, map_tensors(case.arguments, lambda t: cut(t, self._narrowest()))
            )
        return self._lower[i]

    def _narrowest(self) -> torch.dtype:
        """Return the floating type with the fewest bits of mantissa among arguments and outputs: what is exact in it is exact in the call."""
        seen = [b.eager.dtype for b in self._case.bounds]
        seen += [t.dtype for t in tensors_among(self._case.arguments)]
        return min((d for d in seen if d in MANTISSA), key=lambda d: MANTISSA[d], default=torch.float32)


def cut(t: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return the values rounded to the mantissa of the precision below their type, or below `dtype`; the range of the exponent stays."""
    if t.dtype not in MANTISSA:
        return t
    mantissa, exponent = torch.frexp(t.double())
    scale = 2.0 ** (MANTISSA[dtype or t.dtype] + 1)
    rounded = torch.ldexp((mantissa * scale).round() / scale, exponent).to(t.dtype)
    kept = torch.where(torch.isfinite(t) & torch.isfinite(rounded), rounded, t)
    return (
        kept.as_strided(t.shape, t.stride())
        if kept.stride() == t.stride()
        else torch.empty_like(t).copy_(kept)
    )


def _zeros(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    return torch.zeros_like(case.eager(i))


def _constant(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    """The mean of the first case's output, for every case: of one alone it would be right where there is one element."""
    return torch.full_like(case.eager(i), shared.constant[i])


def _input(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    out = case.eager(i)
    return next(
        (t for t in tensors_among(case.arguments) if t.dtype is out.dtype and t.shape == out.shape), None
    )


def _previous(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    return case.before[i] if len(case.before) else None


def _rows(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    """The first two rows change places."""
    out = case.eager(i)
    dim = next((d for d, n in enumerate(out.shape) if n > 1), None)
    if dim is None:
        return None
    order = torch.arange(out.shape[dim], device=out.device)
    order[:2] = order[:2].flip(0)
    return out.index_select(dim, order)


def _last(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    """The last element keeps what the memory held: the previous output's, or zero."""
    out = case.eager(i).clone(memory_format=torch.contiguous_format)
    out.view(-1)[-1] = case.before[i].reshape(-1)[-1] if len(case.before) else 0
    return out


def _lower(case: Case, i: int, shared: _Shared) -> torch.Tensor | None:
    out = case.eager(i)
    return cut(shared.lower(i), shared._narrowest()) if out.is_floating_point() else shared.lower(i)


CONTROLS: dict[str, Control] = {
    "zeros": _zeros,
    "constant": _constant,
    "input copy": _input,
    "previous output": _previous,
    "rows permuted": _rows,
    "last element dropped": _last,
    "lower precision": _lower,
}


def tried(cases: Iterable[Case], names: Iterable[str] = CONTROLS) -> dict[str, str]:
    """Return how each control ended on these inputs: `fails`, `equal` or `passes`; controls that the call has none of are absent.

    A control is held against one output at a time, the others being eager's: that of each output has to fail.
    """
    held = list(cases)
    constant = [_mean(b.eager) for b in held[0].bounds] if held else []
    shared = [_Shared(c, constant) for c in held]
    found = {}
    for name in names:
        ends = [end for i in range(len(constant)) if (end := _ended(CONTROLS[name], i, held, shared))]
        if ends:
            found[name] = max(ends, key=_ORDER.index)
    return found


def _ended(control: Control, i: int, cases: list[Case], shared: list[_Shared]) -> str:
    """Return how a control of output i ended, "" where no case has one."""
    end = ""
    for case, more in zip(cases, shared, strict=True):
        if case.eager(i).numel() == 0:
            continue
        out = control(case, i, more)
        if out is None:
            continue
        if (
            compare(case.bounds, [out if j == i else b.eager for j, b in enumerate(case.bounds)]).status
            != "ok"
        ):
            return FAILS
        if end != PASSES:
            end = EQUAL if _equal(out, case.eager(i)) else PASSES
    return end


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if torch.equal(bits(a), bits(b)):
        return True
    same = a == b
    if a.is_floating_point():
        same |= torch.isnan(a) & torch.isnan(b)
    return bool(same.all())


def _mean(t: torch.Tensor) -> float:
    value = t.double()
    value = value[torch.isfinite(value)]
    mean = float(value.mean()) if value.numel() else 0.0
    return mean if t.is_floating_point() else float(round(mean))
