"""The inputs that a variant is judged on, and what each run of one is compared with.

It owns which cases there are: the captured payload, fresh draws, special values, exact integers. It refuses memory that others can reach: cases
live here in private memory, `memory.py` copies them to where a candidate runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._place import HOST, Place
from . import specials
from .bounds import Bound, Finding, grouping
from .calls import Overload, overload, slot_descriptors, slot_tensors, with_tensors
from .draws import Moments, Slot
from .operators import operator
from .reference import refer
from .rule import FRESH


@dataclass(frozen=True)
class Input:
    """One input of a variant: its kind (docs/formats.md, `tasks`), its number within the kind, its place at a mapping's end or start."""

    kind: str
    number: int
    placement: str


class Variant:
    """One exact call, with the payload that was captured for it, able to make all its inputs again from the seed.

    Args:
        call: the `call` JSON.
        payload: captured arguments in schema order, or None where capture kept none; then moments of a standard normal stand in.
        seed: of the run; the same seed gives the same inputs.
        place: where inputs are drawn, and where eager runs.
    """

    def __init__(
        self, call: dict[str, Any], payload: Sequence[Any] | None, seed: int, place: Place = HOST
    ) -> None:
        self.call, self.seed, self.place, self._payload = call, seed, place, payload
        self.overload: Overload = overload(call["overload"])
        self.slots = [
            Slot(name, d, read=name not in self.overload.overwritten) for name, d in slot_descriptors(call)
        ]
        self._captured = None if payload is None else slot_tensors(call, payload)
        seen: list[torch.Tensor | None] = [*self._captured] if self._captured is not None else []
        self._moments = [Moments.of(t) for t in seen or [None] * len(self.slots)]
        shapes = [torch.empty(s.sizes, dtype=s.dtype, device="meta") for s in self.slots]
        named = dict(zip(self.overload.names, self.arguments(shapes), strict=True))
        line = operator(self.overload, named)
        self._guarded = line.kind == "bounded"
        self._probes = self._guarded and line.probe is not None and line.probe(named)
        lines = line.lines(named) if line.lines else None
        # Data gets special values, parameters do not: floating, read, and as large as the largest, or in a list.
        floating = [s for s in self.slots if s.read and s.dtype.is_floating_point]
        largest = max((s.numel for s in floating), default=0)
        names = [s.name for s in self.slots]
        data = [s for s in floating if s.numel == largest or names.count(s.name) > 1]
        self._rows = {id(s): lines if s is self.slots[0] else None for s in data}

    @property
    def captured(self) -> bool:
        """Whether there is a captured payload."""
        return self._captured is not None

    def arguments(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Return arguments in schema order with these tensors in the input slots."""
        return with_tensors(self.call, tensors, self._payload)

    def inputs(self, *, minor: bool = False) -> list[Input]:
        """Return the inputs to judge on, placed in turn at the end and at the start of their mappings, a captured one at both.

        minor: one input of each kind, for a variant that takes little of a card's time. Its code is judged on the card's other variants too.
        """
        drawn = [("captured", 0)] if self.captured else []
        drawn += [("fresh", i) for i in range(FRESH)][: 1 if minor else FRESH]
        rows = max((s.rows(self._rows[id(s)]) for s in self.slots if id(s) in self._rows), default=0)
        if rows:
            drawn += [("special", i) for i in range(1 if minor else specials.cases_for(rows))]
        if self._probes and not minor:
            drawn.append(("exact", 0))
        found = [Input(kind, n, ("end", "start")[i % 2]) for i, (kind, n) in enumerate(drawn)]
        if self.captured and not minor:
            found.insert(1, Input("captured", 0, "start"))
        return found

    def draw(self, kind: str, number: int) -> list[torch.Tensor]:
        """Return the tensors of the input slots, the same ones each time; what a call only overwrites holds zeros."""
        chance = torch.Generator(self.place.device)
        chance.manual_seed(zlib.crc32(f"{self.seed}/{kind}/{number}".encode()))
        return [self._draw(i, kind, number, chance) for i in range(len(self.slots))]

    def _draw(self, i: int, kind: str, number: int, chance: torch.Generator) -> torch.Tensor:
        slot, moments = self.slots[i], self._moments[i]
        if not slot.read:
            return slot.zeros(self.place.device)
        if kind == "captured":
            assert self._captured is not None
            return self._captured[i]
        if kind == "exact":
            return slot.integers(moments, chance)
        if kind == "special" and id(slot) in self._rows:
            # A second operand shows another pattern than the first in the same place.
            return slot.special(self._rows[id(slot)], number + 5 * i, chance, guarded=self._guarded)
        return slot.like(moments, chance, spread=kind == "fresh" and number % 2 == 1)


def bounds_of(overload: Overload, arguments: Sequence[Any], kind: str) -> list[Bound]:
    """Return the bound of each output of a call on these arguments. kind: the case's (docs/formats.md)."""
    reference = refer(overload, arguments)
    named = dict(zip(overload.names, arguments, strict=True))
    line = operator(overload, named)
    probe = kind == "exact" and line.probe is not None and line.probe(named)
    first = next((a for a in arguments if isinstance(a, torch.Tensor)), None)
    bounds = []
    for i, (eager, wide, scale, rule) in enumerate(
        zip(reference.eager, reference.wide, reference.scale, reference.kind, strict=True)
    ):
        groups = None
        if rule == "bounded" and wide is not None and first is not None:
            groups = grouping(line, named, i, wide, first)
        bounds.append(
            Bound(
                f"output {i}",
                rule,
                eager,
                wide,
                scale,
                groups,
                aggregate=kind in ("captured", "fresh"),
                probe=probe,
                statistic=line.statistics and i > 0,
            )
        )
    return bounds


def compare(bounds: Sequence[Bound], outputs: Sequence[torch.Tensor]) -> Finding:
    """Return the worst finding over the outputs of one run, the first failure if there is one."""
    worst, exact = 0.0, True
    for bound, out in zip(bounds, outputs, strict=True):
        finding = bound.compare(out)
        if finding.status != "ok":
            return finding
        worst, exact = max(worst, finding.worst), exact and finding.exact
    return Finding("ok", worst=worst, exact=exact)
