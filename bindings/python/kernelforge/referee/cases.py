"""The inputs that a variant is judged on, and what each run of one is compared with.

It owns which cases there are: the captured payload, fresh draws, special values, exact integers, all values of a 16-bit type, and for finalists the
metamorphic and the changed ones. It refuses memory that others can reach: cases
live here in private memory, `memory.py` copies them to where a candidate runs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._place import HOST, Place
from . import changed, exhaustive, specials
from .bounds import Bound, Compared, Off, grouping
from .calls import Overload, overload, slot_descriptors, slot_tensors, with_tensors
from .controls import FAILS, PASSES, Case, tried
from .draws import Moments, Slot
from .metamorphic import KIND as METAMORPHIC
from .metamorphic import ROWS, SHIFTED, UNSHIFTED, Probes
from .operators import operator
from .ranks import Ranks
from .reference import refer
from .rule import CANCEL_CASES, FEW_ROWS, FRESH, HARDER

CANCELLING = 1
"""Number of the first exact input whose rows cancel; where there are few of them there are more such inputs, since one row may be right by luck."""


@dataclass(frozen=True)
class Input:
    """One input of a variant: its kind (docs/formats.md, `tasks`), its number within the kind, its place at a mapping's end or start.

    final  whether only finalists see it.
    """

    kind: str
    number: int
    placement: str
    final: bool = False


class Variant:
    """One exact call, with the payload that was captured for it, able to make all its inputs again from the seed.

    Args:
        call: the `call` JSON.
        payload: captured arguments in schema order, or None where capture kept none; then moments of a standard normal stand in.
        seed: of the run; the same seed gives the same inputs.
        place: where inputs are drawn, and where eager runs.
        off: gates that a test has turned off.
        moments: of a captured payload that is not here any more, as `moments` gave them.
    """

    def __init__(
        self,
        call: dict[str, Any],
        payload: Sequence[Any] | None,
        seed: int,
        place: Place = HOST,
        off: Off = (),
        moments: Sequence[Sequence[float]] | None = None,
    ) -> None:
        self.call, self.seed, self.place, self.off, self._payload = call, seed, place, off, payload
        self.harder: list[int] = []  # numbers of the fresh draws that `controls` asked for
        self.overload: Overload = overload(call["overload"])
        self.slots = [
            Slot(name, d, read=name not in self.overload.overwritten) for name, d in slot_descriptors(call)
        ]
        self._captured = None if payload is None else slot_tensors(call, payload)
        seen: list[torch.Tensor | None] = [*self._captured] if self._captured is not None else []
        if moments is None:
            self._moments = [Moments.of(t) for t in seen or [None] * len(self.slots)]
        else:
            self._moments = [Moments(*m) for m in moments]
        shapes = [torch.empty(s.sizes, dtype=s.dtype, device="meta") for s in self.slots]
        named = dict(zip(self.overload.names, self.arguments(shapes), strict=True))
        line = operator(self.overload, named)
        self._guarded = line.kind == "bounded"
        self._probes = self._guarded and line.probe is not None and line.probe(named)
        lines = line.lines(named) if line.lines else None
        self._adds = line.adds
        # Data gets special values, parameters do not: floating, read, and as large as the largest, or in a list.
        floating = [s for s in self.slots if s.read and s.dtype.is_floating_point]
        largest = max((s.numel for s in floating), default=0)
        names = [s.name for s in self.slots]
        data = [s for s in floating if s.numel == largest or names.count(s.name) > 1]
        self._rows = {id(s): lines if s is self.slots[0] else None for s in data}
        self._cancels = 0
        if line.adds and self.slots[0].cancels(lines):
            count = self.slots[0].rows(lines)
            if count == math.prod(call["outputs"][0]["sizes"]):
                self._cancels = 1 if count >= FEW_ROWS else CANCEL_CASES
        self._all = exhaustive.unary(self) if "exhaustive" not in off else None
        self.probes: Probes | None = None
        if self.slots and "metamorphic" not in off:
            self.probes = Probes(self.overload.operator, named, self.slots[0], call["outputs"])

    @property
    def moments(self) -> list[list[float]]:
        """What inputs are drawn like, a list for each input slot: mean, deviation, least, largest, part of zeros."""
        return [list(dataclasses.astuple(m)) for m in self._moments]

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
        drawn += [("fresh", i) for i in self.harder]
        every = (
            exhaustive.cases_of(self._all) if self._all else 0
        )  # of 16 bits; the special values are among them
        rows = max((s.rows(self._rows[id(s)]) for s in self.slots if id(s) in self._rows), default=0)
        if rows and not every and "special" not in self.off:
            drawn += [("special", i) for i in range(1 if minor else specials.cases_for(rows))]
        drawn += [("exhaustive", i) for i in range(min(every, exhaustive.CASES))]
        if "exact" not in self.off and not minor:
            drawn += [("exact", 0)] * self._probes
            drawn += [("exact", CANCELLING + i) for i in range(self._cancels)]
        found = [Input(kind, n, ("end", "start")[i % 2]) for i, (kind, n) in enumerate(drawn)]
        if self.captured and not minor:
            found.insert(1, Input("captured", 0, "start"))
        numbers = self.probes.numbers if self.probes else []
        return found + [Input(METAMORPHIC, n, ("end", "start")[n % 2], final=True) for n in numbers]

    def changes(self) -> list[Input]:
        """Return the changed inputs, which mean something only to a run right after the first input, in the same place."""
        if "dirty" in self.off or not any(s.read and s.numel for s in self.slots):
            return []
        return [Input(changed.KIND, n, "end", final=True) for n in changed.NUMBERS]

    def base(self, item: Input) -> tuple[str, int] | None:
        """Return kind and number of the case that the outputs of a metamorphic one are held against; None for the others."""
        if item.kind != METAMORPHIC or item.number == UNSHIFTED:
            return None
        return (METAMORPHIC, UNSHIFTED) if item.number == SHIFTED else self._first()

    def _first(self) -> tuple[str, int]:
        return ("captured" if self.captured else "fresh", 0)

    def controls(
        self, items: Sequence[Input], refer_to: Callable[[Input], Held]
    ) -> tuple[dict[str, str], list[int]]:
        """Return how the negative controls end on these inputs, and which harder draws (`harder`) it took where these let one pass.

        refer_to: gives tensors and bounds of an input.
        """
        held, harder = [refer_to(i) for i in items], []
        ends = tried(self._controlled(held))
        for number in range(FRESH, FRESH + HARDER):
            open_ = [name for name, end in ends.items() if end != FAILS]
            if not open_:
                break
            more = refer_to(Input("fresh", number, "end"))
            now = tried(self._controlled([held[0], more]), open_)
            if FAILS in now.values():
                harder.append(number)
            for name, end in now.items():
                if FAILS in (end, ends[name]):
                    ends[name] = FAILS
                elif PASSES in (end, ends[name]):
                    ends[name] = PASSES
        return ends, harder

    def _controlled(self, held: Sequence[Held]) -> list[Case]:
        eager = [[b.eager for b in bounds] for _, bounds in held]
        return [
            Case(self.overload, self.arguments(tensors), bounds, eager[i - 1] if len(held) > 1 else [])
            for i, (tensors, bounds) in enumerate(held)
        ]

    def draw(self, kind: str, number: int) -> list[torch.Tensor]:
        """Return the tensors of the input slots, the same ones each time; what a call only overwrites holds zeros."""
        if kind == METAMORPHIC and number != UNSHIFTED:
            assert self.probes is not None
            first, *rest = self.draw(*(self._first() if number == ROWS else (METAMORPHIC, UNSHIFTED)))
            return [self.probes.rows(first) if number == ROWS else self.probes.shifted(first), *rest]
        chance = torch.Generator(self.place.device)
        chance.manual_seed(zlib.crc32(f"{self.seed}/{kind}/{number}".encode()))
        if kind == changed.KIND:
            return changed.change(self.slots, self._moments, self.draw(*self._first()), number, chance)
        return [self._draw(i, kind, number, chance) for i in range(len(self.slots))]

    def _draw(self, i: int, kind: str, number: int, chance: torch.Generator) -> torch.Tensor:
        slot, moments = self.slots[i], self._moments[i]
        if not slot.read:
            return slot.zeros(self.place.device)
        if kind == "captured":
            assert self._captured is not None
            return self._captured[i]
        if kind == "exact" and number >= CANCELLING and i == 0:
            return slot.cancelling(self._rows[id(slot)], chance, mean=self._adds == "mean")
        if kind in ("exact", METAMORPHIC):
            return slot.integers(moments, chance)
        if kind == "exhaustive" and slot is self._all:
            return exhaustive.patterns(slot, number, self.seed, self.place.device)
        if kind == "fresh" and number >= FRESH:
            return slot.harder(moments, chance, number - FRESH)
        if kind == "special" and id(slot) in self._rows:
            # A second operand shows the first one's pattern in the first case (-0 meets -0, inf meets inf), another in the same place in the others.
            shift = number + (5 * i if number else 0)
            return slot.special(self._rows[id(slot)], shift, chance, guarded=self._guarded)
        return slot.like(moments, chance, spread=kind == "fresh" and number % 2 == 1)


_MAJOR_PART, _MAJOR_MOST = 0.75, 4  # of a card's time, of its variants: these see every input


def major(variants: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the variants that take most of a card's time, the heaviest first; the others are judged on fewer inputs."""
    taken = {v["id"]: v["calls"] * v["eager_us"] for v in variants}
    order = sorted(taken, key=lambda i: -taken[i])
    held = itertools.accumulate(taken[i] for i in order)
    enough = next(
        (n for n, sum_ in enumerate(held, 1) if sum_ >= _MAJOR_PART * sum(taken.values())), len(order)
    )
    return order[: min(enough, _MAJOR_MOST)]


Held = tuple[list[torch.Tensor], list[Compared]]
"""The tensors of an input, and what each output is compared with."""


def bounds_of(overload: Overload, arguments: Sequence[Any], kind: str, off: Off = ()) -> list[Compared]:
    """Return the bound of each output of a call on these arguments. kind: the case's (docs/formats.md); off: gates that a test has turned off."""
    reference = refer(overload, arguments)
    named = dict(zip(overload.names, arguments, strict=True))
    line = operator(overload, named)
    probe = kind == "exact"  # which there is where it applies
    first = next((a for a in arguments if isinstance(a, torch.Tensor)), None)
    bounds: list[Compared] = []
    for i, (eager, wide, scale, rule) in enumerate(
        zip(reference.eager, reference.wide, reference.scale, reference.kind, strict=True)
    ):
        if rule == "ranks":
            assert first is not None
            bounds.append(_ranks(i, eager, reference.eager[0], first, named))
            continue
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
                off=off,
            )
        )
    return bounds


def _ranks(
    index: int, eager: torch.Tensor, values: torch.Tensor, source: torch.Tensor, named: dict[str, Any]
) -> Ranks:
    ordered = named.get("sorted", True)
    return Ranks(f"output {index}", eager, values, source, named["dim"], ordered=ordered, index=index == 1)
