"""A card between prepare and release: its inputs with their references, its shared memory, and the comparison of every run.

It owns what is looked at after a run, in which order, and which cases there is room for. It refuses to run a candidate: the worker does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import torch

from .._place import HOST, Place, attempt
from ..errors import RefereeFault
from . import changed, stale
from .bounds import Compared, Finding, Off, compare
from .cases import Held, Input, Variant, major
from .doubts import Doubts
from .draws import Slot
from .held import Digests, References
from .memory import Room, Stage, differing, unwritten
from .pool import Pool, Slab
from .reference import run_eager
from .ruler import Calls, calls_of, reference_ns

log = logging.getLogger("kernelforge")
T = TypeVar("T")

SMALLER = "optimize with a smaller batch, or free memory on the device"
_ALIGN = 16  # at most: a guard asks for no more than most tensors have, and a tensor's end comes near its mapping's


class Profiled(Protocol):
    """What the referee needs of a profile."""

    cards: list[dict[str, Any]]

    def payload(self, card: str, variant: str) -> list[Any] | None: ...
    def align(self, card: str, variant: str) -> list[int]: ...


@dataclass(frozen=True)
class Controlled:
    """How the negative controls of one variant ended, and which harder draws it took."""

    ends: dict[str, str]
    harder: list[int]


Controls = dict[str, Controlled]


class OpenVariant:
    """One variant of an open card."""

    def __init__(
        self,
        variant: dict[str, Any],
        payload: list[Any] | None,
        align: list[int],
        seed: int,
        place: Place,
        off: Off,
    ) -> None:
        self.id: str = variant["id"]
        self.inputs = Variant(variant["call"], payload, seed, place, off)
        outputs = variant["call"]["outputs"]
        self.aliases = [int(o["alias"]) for o in outputs]
        slots = [Slot(f"out{i}", o, read=False) for i, o in enumerate(outputs)]
        seen = [*align, *([_ALIGN] * (len(self.inputs.slots) + len(slots)))][: len(self.inputs.slots)]
        self.align = [min(a, _ALIGN) for a in seen]
        self.align += [self.align[a] if a >= 0 else _ALIGN for a in self.aliases]
        self.stage = Stage(
            self.inputs.slots, slots, self.aliases, self.align, place, poison="poison" not in off
        )


class OpenCard:
    """A card between prepare and release.

    Args:
        card: the card (docs/formats.md, `card`).
        profile: payloads and alignments.
        seed: of the run.
        place: where it ran.
        off: gates that a test has turned off.
        controls: of an earlier time that this card was prepared, with the same seed: they are not tried again.
    """

    def __init__(
        self,
        card: dict[str, Any],
        profile: Profiled,
        seed: int,
        place: Place = HOST,
        off: Off = (),
        controls: Controls | None = None,
    ) -> None:
        self.clock = [time.monotonic()]  # then after the memory, the references, the controls
        self._place, self._off, self._name = place, off, f"`{card['overload']}` ({card['id']})"
        if not attempt(place, lambda: self._lay_out(card, profile, seed)):
            gib = place.free_bytes() / 2**30
            raise RefereeFault(
                f"prepare the card {self._name}: {place.device} has no room for its shared buffers ({gib:.1f} GiB are free)",
                hint=SMALLER,
            )
        self._references, self._digests = References(place), Digests()
        self.clock.append(time.monotonic())
        self._timed: dict[str, Calls] = {}
        self._graphs = torch.cuda.graph_pool_handle() if place.cuda else None
        self._placed: int | None = None
        self._stale = ""  # which part of the outputs was poison, the others being right; "" where all was
        self._first: dict[int, tuple[list[torch.Tensor], Finding, str]] = {}
        self.cases = self._that_fit(card)
        self.clock.append(time.monotonic())
        self.controls = controls or self._controls()
        for v in self.variants.values():
            v.inputs.harder = self.controls[v.id].harder
        self.cases = self._that_fit(card)
        self.clock.append(time.monotonic())
        # A variant's first case, which timing comes back to, and those that others are held against.
        self._keep = {
            next(i for i, (v, _) in enumerate(self.cases) if v is w) for w in self.variants.values()
        }
        self._keep |= {b for v, i in self.cases if (b := self._base(v, i)) is not None}

    def _lay_out(self, card: dict[str, Any], profile: Profiled, seed: int) -> None:
        """Make the shared memory of all variants and of the timing."""
        self.variants = {
            v["id"]: OpenVariant(
                v,
                profile.payload(card["id"], v["id"]),
                profile.align(card["id"], v["id"]),
                seed,
                self._place,
                self._off,
            )
            for v in card["variants"]
        }
        heaviest = major(card["variants"])[0]
        first = self.variants[heaviest].inputs
        samples = first.draw("captured" if first.captured else "fresh", 0)
        slots = {v.id: v.inputs.slots for v in self.variants.values()}
        writable = [i in self.variants[heaviest].aliases for i in range(len(samples))]
        self._pool = Pool(slots, samples, writable, self._place)

    def _that_fit(self, card: dict[str, Any]) -> list[tuple[OpenVariant, Input]]:
        """Return the cases, on a device without those that it has no room to judge: a reference in float64 takes many times what the call takes."""
        heavy = major(card["variants"])
        cases = [
            (v, i)
            for v in self.variants.values()
            for i in [*v.inputs.inputs(minor=v.id not in heavy), *v.inputs.changes()]
        ]
        if not self._place.cuda:
            return cases
        kept: list[tuple[OpenVariant, Input]] = []
        for v, item in cases:
            if item.kind == changed.KIND:  # as large as the first, and another each time
                fits = any(w is v for w, _ in kept)
            else:
                fits = attempt(self._place, lambda v=v, item=item: self._reference(v, item), self._hold_less)  # type: ignore[misc]
            if fits:
                kept.append((v, item))
            else:
                log.warning("%s: no room to judge variant %s on its %s input", self._name, v.id, item.kind)
        for v in self.variants.values():
            if not any(w is v for w, _ in kept):
                gib = self._place.free_bytes() / 2**30
                raise RefereeFault(
                    f"prepare the card {self._name}: {self._place.device} has no room for the reference of variant `{v.id}` on any input ({gib:.1f} GiB are free)",
                    hint=SMALLER,
                )
        return kept

    def _controls(self) -> Controls:
        """Try outputs that are known to be wrong on every variant's inputs, those of a search alone, and eager itself, which has to pass."""
        found = {}
        for v in self.variants.values():
            items = {(i.kind, i.number): i for w, i in self.cases if w is v and not i.final}

            def refer_to(item: Input, v: OpenVariant = v) -> Held:
                return self._with_room(lambda: self._reference(v, item))

            ends, harder = v.inputs.controls(list(items.values()), refer_to)
            tensors, bounds = refer_to(next(iter(items.values())))
            again = compare(bounds, run_eager(v.inputs.overload, v.inputs.arguments(tensors)))
            if again.status != "ok":
                raise RefereeFault(
                    f"prepare the card {self._name}: eager itself does not repeat on variant `{v.id}`: {again.detail}",
                    hint="an operator that gives other results each time cannot be judged; ops=[...] leaves it out",
                )
            found[v.id] = Controlled(ends, harder)
        return found

    def _base(self, variant: OpenVariant, item: Input) -> int | None:
        """Return the number of the case whose outputs a metamorphic one is held against."""
        wanted = variant.inputs.base(item)
        return next(
            (n for n, (v, i) in enumerate(self.cases) if v is variant and (i.kind, i.number) == wanted), None
        )

    def _with_room(self, make: Callable[[], T]) -> T:
        """Return what `make` returns, called again with fewer references held where a device has no room."""
        made: list[T] = []
        if not attempt(self._place, lambda: made.append(make()), self._hold_less):
            free = self._place.free_bytes() / 2**30
            raise RefereeFault(
                f"judge the card {self._name}: {self._place.device} is out of memory ({free:.1f} GiB are free)",
                hint=SMALLER,
            )
        return made[0]

    def _hold_less(self) -> None:
        self._references.clear(limit=self._place.free_bytes() // 8)

    def _reference(self, v: OpenVariant, item: Input) -> tuple[list[torch.Tensor], list[Any]]:
        return self._references.get(v.id, v.inputs, item, keep=item.kind != changed.KIND)

    def prepared(self) -> dict[str, Any]:
        """Return the result of `prepare`."""
        mapped: list[Room | Slab] = [r for v in self.variants.values() for r in v.stage.rooms]
        mapped += self._pool.slabs
        all_writable = "inputs" in self._off
        buffers = [
            {"id": b.id, "fd": b.fd, "bytes": b.bytes, "writable": b.writable or all_writable} for b in mapped
        ]
        cases = [
            {
                "id": number,
                "variant": v.id,
                "kind": i.kind,
                "number": i.number,
                "placement": i.placement,
                **({"final": True} if i.final else {}),
                "slots": [{"buffer": r.id, "offset": r.offset(i.placement)} for r in v.stage.slots],
            }
            for number, (v, i) in enumerate(self.cases)
        ]
        return {
            "buffers": buffers,
            "cases": cases,
            "timing": {v.id: self._pool.places(v.id, v.aliases) for v in self.variants.values()},
            "align": {v.id: v.align for v in self.variants.values()},
            "moments": {v.id: v.inputs.moments for v in self.variants.values()},
            "controls": {v: c.ends for v, c in self.controls.items()},
        }

    # ---- correctness ------------------------------------------------------------------------------------------------

    def check(self, asked: dict[str, int] | None, poison: dict[str, int] | None) -> dict[str, Any]:
        """Compare the run that just ended, then make memory ready for the next."""
        result = {"status": "ok", "gate": "", "detail": "", "worst": 0.0, "output_hash": "", "exact": False}
        if asked is not None:
            finding, digest = self._with_room(lambda: self._compared(asked["case"], asked["repeat"]))
            result = {
                "status": finding.status,
                "gate": finding.gate,
                "detail": finding.detail,
                "worst": min(finding.worst, 1e300),  # JSON has no infinity
                "output_hash": digest,
                "exact": finding.exact,
                "number": self.cases[asked["case"]][1].number,
            }
        if poison is not None:
            self._with_room(lambda: self._make_ready(poison["case"], poison["pattern"]))
        return result

    def _make_ready(self, case: int, pattern: int) -> None:
        variant, item = self._case(case)
        old, part = None, None
        self._stale = ""
        if item.kind == changed.KIND:
            item, old = self._changed_anew(case)
        elif pattern in stale.PARTS and case in self._first:
            old, (self._stale, part) = self._first[case][0], stale.PARTS[pattern]
        tensors = self._reference(variant, item)[0]
        if self._placed == case and item.kind != changed.KIND:
            variant.stage.again(tensors, pattern % stale.PATTERNS)
        else:
            variant.stage.load(tensors, item.placement, pattern % stale.PATTERNS)
        if old is not None:
            variant.stage.old(old, part)
        variant.stage.push()
        self._placed = case

    def _changed_anew(self, case: int) -> tuple[Input, list[torch.Tensor] | None]:
        """Draw a changed input for this run alone; return it, and the candidate's outputs for what it was changed from, which would be wrong now."""
        variant, item = self.cases[case]
        first = next(n for n, (v, _) in enumerate(self.cases) if v is variant)
        known = self._first.get(first)
        old = known[0] if known else [b.eager for b in self._reference(variant, self.cases[first][1])[1]]
        for _ in range(changed.TRIES if "values" not in self._off else 1):
            item = replace(item, number=changed.another(item.number))
            self.cases[case] = (variant, item)
            if compare(self._reference(variant, item)[1], old).status != "ok":
                return item, old
        log.warning("%s: no change of one element of variant %s shows", self._name, variant.id)
        return item, None

    def _case(self, number: int) -> tuple[OpenVariant, Input]:
        if not 0 <= number < len(self.cases):
            raise RefereeFault(
                f"check case {number}: there is no such case (expected 0 to {len(self.cases) - 1})"
            )
        return self.cases[number]

    def _compared(self, case: int, repeat: int) -> tuple[Finding, str]:
        if self._placed != case:
            raise RefereeFault(f"check case {case}: it is not what was placed last")
        variant, item = self._case(case)
        stage, doubts = variant.stage, Doubts()
        stage.pull()
        if "guard_pages" not in self._off:
            stage.ask_written(doubts)
        first = self._first.get(case) if repeat > 0 and item.kind != changed.KIND else None
        gate = "poison" if self._stale else "repeats"
        unasked = {gate} if self._stale else {"repeats", "dirty"}  # runs differ in what they find
        if first is not None and unasked <= set(self._off):
            return first[1], first[2]
        if first is not None:
            outputs, finding, digest = first
            other = f"run {repeat + 1} gave other bits than the first run on the same input"
            if self._stale:
                other += f", on outputs that were right but for {self._stale}"
            for room, out in zip(stage.outputs, outputs, strict=True):
                doubts.ask(room.differs(out), differing(room, out, other), gate)
            words, gate = doubts.first()
            if gate == "repeats":
                words, gate = self._left_this_time(variant, item) or (words, gate)
            return (Finding("wrong_value", words, 2.0, gate=gate), "") if words else (finding, digest)
        tensors, bounds = self._reference(variant, item)
        if "inputs" not in self._off:
            stage.ask_changed(doubts, tensors)
        outputs = [room.private() for room in stage.outputs]
        for room, out, bound in zip(stage.outputs, outputs, bounds, strict=True):
            if "poison" not in self._off and item.kind != changed.KIND:
                left = partial(unwritten, room, out, bound, item.kind == "exhaustive")
                doubts.ask(room.suspects(out), left, "poison")
        words, gate = doubts.first()
        if words:
            return Finding("wrong_value", words, 2.0, gate=gate), ""
        finding = compare(bounds, outputs)
        same = finding.exact and item.kind != changed.KIND  # which is another input each time
        digest = self._digests.of(case, outputs, as_eager=same)
        if finding.status == "ok" and item.final:
            related = self._related(variant, item, tensors, outputs, bounds)
            finding = finding if related.status == "ok" else related
        self._first = {k: v for k, v in self._first.items() if k in self._keep}
        self._first[case] = (outputs, finding, digest)
        return finding, digest

    def _left_this_time(self, variant: OpenVariant, item: Input) -> tuple[str, str] | None:
        """Return why a run that differs from the first is no other result but none: it left this poison where it wrote over the first's."""
        if "poison" in self._off:
            return None
        for room, bound in zip(variant.stage.outputs, self._reference(variant, item)[1], strict=True):
            if words := unwritten(room, room.private(), bound, item.kind == "exhaustive"):
                return words, "poison"
        return None

    def _related(
        self,
        variant: OpenVariant,
        item: Input,
        tensors: list[torch.Tensor],
        outputs: list[torch.Tensor],
        bounds: Sequence[Compared],
    ) -> Finding:
        """Hold a metamorphic case against what the same candidate gave for another."""
        base, probes = self._base(variant, item), variant.inputs.probes
        if base is None or probes is None:
            return Finding("ok")
        if base not in self._first:
            kind, number = self.cases[base][1].kind, self.cases[base][1].number
            raise RefereeFault(
                f"check the {item.kind} case {item.number} of {self._name}: the {kind} case {number} has to run before it"
            )
        named = dict(zip(variant.inputs.overload.names, variant.inputs.arguments(tensors), strict=True))
        _, of_base = self._reference(variant, self.cases[base][1])
        return probes.check(item.number, named, outputs, bounds, self._first[base][0], of_base)

    # ---- time -------------------------------------------------------------------------------------------------------

    def time_eager(self, variant: str, samples: int, inner: int) -> dict[str, Any]:
        """Time eager over the rotating sets, beside the reference kernel; nanoseconds a call."""
        # The worker, too, warms a variant once: a pass over all sets is dear for slow operators.
        first = variant not in self._timed
        if first:
            inputs = self.variants[variant].inputs
            sets = [inputs.arguments(tensors) for tensors in self._pool.tensors(variant)]
            self._timed[variant] = calls_of(self._place, inputs.overload.name, sets, self._graphs)
        times = self._with_room(lambda: self._timed[variant].eager(samples, inner, warm=first))
        if first:
            self._place.leave_room()
        return {"samples_ns": times, "reference_ns": reference_ns(self._place)}
