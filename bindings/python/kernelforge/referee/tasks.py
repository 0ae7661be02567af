"""Carries out the tasks of docs/formats.md for the core, one after the other: prepare, check, time_eager, confirm, confirm_model, release.

It owns the cards that are open, their shared memory and their references. While a task runs, the worker is idle.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

from .._place import HOST, Place, attempt
from ..errors import RefereeFault
from .bounds import Finding
from .cases import Input, Variant, compare
from .confirm import confirm, refused
from .doubts import Doubts
from .draws import Slot
from .held import References, digest_of
from .memory import Room, Stage
from .model import Model, confirm_model
from .pool import Pool, Slab
from .ruler import Calls, calls_of, reference_ns

log = logging.getLogger("kernelforge")
T = TypeVar("T")

_ALIGN = 16  # at most: a guard asks for no more than most tensors have, and a tensor's end comes near its mapping's
_SMALLER = "optimize with a smaller batch, or free memory on the device"
_MAJOR_PART, _MAJOR_MOST = 0.75, 4  # of a card's time, of its variants: these see every input


class Profiled(Protocol):
    """What the referee needs of a profile."""

    cards: list[dict[str, Any]]

    def payload(self, card: str, variant: str) -> list[Any] | None: ...
    def align(self, card: str, variant: str) -> list[int]: ...


class Referee:
    """The trusted half of the judge, for the cards of one profile.

    Args:
        profile: cards and captured payloads.
        forward: one forward of the model, for `confirm_model`.
        seed: chance of `confirm_model`; the other tasks bring their own.
        model, inputs: as given to `profile`; with them the whole model's outputs are held against a float64 run.
        place: where the cards ran: buffers, references and comparisons are there.

    Use it as a context manager: leaving it frees all shared memory.
    """

    def __init__(
        self,
        profile: Profiled,
        forward: Callable[[], Any] | None = None,
        *,
        seed: int = 0,
        model: Any = None,
        inputs: Any = None,
        place: Place = HOST,
    ) -> None:
        self._profile, self._forward, self._seed, self._place = profile, forward, seed, place
        self._model = None if forward is None else Model(forward, model, inputs, place)
        self._open: dict[str, OpenCard] = {}
        self._tasks: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "prepare": self._prepare,
            "check": lambda t: self._card(t).check(t["compare"], t["poison"]),
            "time_eager": lambda t: self._card(t).time_eager(t["variant"], t["samples"], t["inner"]),
            "confirm": self._confirm,
            "confirm_model": self._confirm_model,
            "release": self._release,
        }

    def __enter__(self) -> Referee:
        return self

    def __exit__(self, *exc: object) -> None:
        self._place.wait()  # nothing may run on memory that is about to go
        self._open.clear()

    def execute(self, task: dict[str, Any]) -> dict[str, Any]:
        """Carry out one task and return its result.

        Raises:
            RefereeFault: an unknown task or card. A candidate that fails is a result, never an exception.
        """
        carry_out = self._tasks.get(task["kind"])
        if carry_out is None:
            raise RefereeFault(
                f"carry out the task `{task['kind']}`: no such task (expected one of {', '.join(self._tasks)})"
            )
        with torch.no_grad(), self._place.current():
            answer = carry_out(task)
            self._place.wait()  # the lease: the worker runs next, on a device that is idle
            return answer

    def _card(self, task: dict[str, Any]) -> OpenCard:
        found = self._open.get(task["card"])
        if found is None:
            raise RefereeFault(
                f"carry out `{task['kind']}` on the card `{task['card']}`: it was not prepared, or was released"
            )
        return found

    def _prepare(self, task: dict[str, Any]) -> dict[str, Any]:
        card = next((c for c in self._profile.cards if c["id"] == task["card"]), None)
        if card is None:
            raise RefereeFault(f"prepare the card `{task['card']}`: the profile has no such card")
        self._open.pop(card["id"], None)
        began = time.monotonic()
        self._open[card["id"]] = opened = OpenCard(card, self._profile, task["seed"], self._place)
        self._place.trim()
        log.info(
            "prepared `%s`: %d cases in %.1f s", card["overload"], len(opened.cases), time.monotonic() - began
        )
        return opened.prepared()

    def _release(self, task: dict[str, Any]) -> dict[str, Any]:
        self._open.pop(task["card"], None)
        self._place.trim()
        return {}

    def _confirm(self, task: dict[str, Any]) -> dict[str, Any]:
        payload = self._profile.payload(task["card"], task["variant"])
        variant = Variant(task["plan"]["call"], payload, task["seed"], self._place)
        answers: list[dict[str, Any]] = []
        if not attempt(
            self._place,
            lambda: answers.append(
                confirm(variant, task["plan"], task["image"], task["blocks"], task["seed"])
            ),
        ):
            answers.append(refused("launch_error", f"{self._place.device} has no room to confirm it"))
        self._place.trim()
        return answers[0]

    def _confirm_model(self, task: dict[str, Any]) -> dict[str, Any]:
        if self._forward is None or self._model is None:
            raise RefereeFault("confirm the whole model: this referee was made without a forward")
        answer = confirm_model(self._forward, self._model, task["plans"], task["blocks"], self._seed)
        self._place.trim()
        return answer


class OpenVariant:
    """One variant of an open card."""

    def __init__(
        self, variant: dict[str, Any], payload: list[Any] | None, align: list[int], seed: int, place: Place
    ) -> None:
        self.id: str = variant["id"]
        self.inputs = Variant(variant["call"], payload, seed, place)
        outputs = variant["call"]["outputs"]
        self.aliases = [int(o["alias"]) for o in outputs]
        slots = [Slot(f"out{i}", o, read=False) for i, o in enumerate(outputs)]
        seen = [*align, *([_ALIGN] * (len(self.inputs.slots) + len(slots)))][: len(self.inputs.slots)]
        self.align = [min(a, _ALIGN) for a in seen]
        self.align += [self.align[a] if a >= 0 else _ALIGN for a in self.aliases]
        self.stage = Stage(self.inputs.slots, slots, self.aliases, self.align, place)


class OpenCard:
    """A card between prepare and release."""

    def __init__(self, card: dict[str, Any], profile: Profiled, seed: int, place: Place = HOST) -> None:
        self._place, self._name = place, f"`{card['overload']}` ({card['id']})"
        if not attempt(place, lambda: self._lay_out(card, profile, seed)):
            gib = place.free_bytes() / 2**30
            raise RefereeFault(
                f"prepare the card {self._name}: {place.device} has no room for its shared buffers ({gib:.1f} GiB are free)",
                hint=_SMALLER,
            )
        self._references = References(place)
        self._timed: dict[str, Calls] = {}
        self._graphs = torch.cuda.graph_pool_handle() if place.cuda else None
        self._placed: int | None = None
        self._first: dict[int, tuple[list[torch.Tensor], Finding, str]] = {}
        self.cases = self._that_fit(card)
        self._keep = {
            next(i for i, (v, _) in enumerate(self.cases) if v is w) for w in self.variants.values()
        }

    def _lay_out(self, card: dict[str, Any], profile: Profiled, seed: int) -> None:
        """Make the shared memory of all variants and of the timing."""
        self.variants = {
            v["id"]: OpenVariant(
                v, profile.payload(card["id"], v["id"]), profile.align(card["id"], v["id"]), seed, self._place
            )
            for v in card["variants"]
        }
        heaviest = _major(card["variants"])[0]
        first = self.variants[heaviest].inputs
        samples = first.draw("captured" if first.captured else "fresh", 0)
        slots = {v.id: v.inputs.slots for v in self.variants.values()}
        writable = [i in self.variants[heaviest].aliases for i in range(len(samples))]
        self._pool = Pool(slots, samples, writable, self._place)

    def _that_fit(self, card: dict[str, Any]) -> list[tuple[OpenVariant, Input]]:
        """Return the cases, on a device without those that it has no room to judge: a reference in float64 takes many times what the call takes."""
        major = _major(card["variants"])
        cases = [(v, i) for v in self.variants.values() for i in v.inputs.inputs(minor=v.id not in major)]
        if not self._place.cuda:
            return cases
        kept = []
        for v, item in cases:
            if attempt(self._place, lambda v=v, item=item: self._reference(v, item), self._hold_less):  # type: ignore[misc]
                kept.append((v, item))
            else:
                log.warning("%s: no room to judge variant %s on its %s input", self._name, v.id, item.kind)
        for v in self.variants.values():
            if not any(w is v for w, _ in kept):
                gib = self._place.free_bytes() / 2**30
                raise RefereeFault(
                    f"prepare the card {self._name}: {self._place.device} has no room for the reference of variant `{v.id}` on any input ({gib:.1f} GiB are free)",
                    hint=_SMALLER,
                )
        return kept

    def _with_room(self, make: Callable[[], T]) -> T:
        """Return what `make` returns, called again with fewer references held where a device has no room."""
        made: list[T] = []
        if not attempt(self._place, lambda: made.append(make()), self._hold_less):
            free = self._place.free_bytes() / 2**30
            raise RefereeFault(
                f"judge the card {self._name}: {self._place.device} is out of memory ({free:.1f} GiB are free)",
                hint=_SMALLER,
            )
        return made[0]

    def _hold_less(self) -> None:
        self._references.clear(limit=self._place.free_bytes() // 8)

    def _reference(self, v: OpenVariant, item: Input) -> tuple[list[torch.Tensor], list[Any]]:
        return self._references.get(v.id, v.inputs, item)

    def prepared(self) -> dict[str, Any]:
        """Return the result of `prepare`."""
        mapped: list[Room | Slab] = [r for v in self.variants.values() for r in v.stage.rooms]
        mapped += self._pool.slabs
        buffers = [{"id": b.id, "fd": b.fd, "bytes": b.bytes, "writable": b.writable} for b in mapped]
        cases = [
            {
                "id": number,
                "variant": v.id,
                "kind": i.kind,
                "placement": i.placement,
                "slots": [{"buffer": r.id, "offset": r.offset(i.placement)} for r in v.stage.slots],
            }
            for number, (v, i) in enumerate(self.cases)
        ]
        return {
            "buffers": buffers,
            "cases": cases,
            "timing": {v.id: self._pool.places(v.id, v.aliases) for v in self.variants.values()},
            "align": {v.id: v.align for v in self.variants.values()},
        }

    # ---- correctness ------------------------------------------------------------------------------------------------

    def check(self, asked: dict[str, int] | None, poison: dict[str, int] | None) -> dict[str, Any]:
        """Compare the run that just ended, then make memory ready for the next."""
        result = {"status": "ok", "gate": "", "detail": "", "worst": 0.0, "output_hash": "", "exact": False}
        if asked is not None:
            finding, digest = self._with_room(lambda: self._compared(asked["case"], asked["repeat"]))
            worst = min(finding.worst, 1e300)  # JSON has no infinity
            result = {
                "status": finding.status,
                "gate": finding.gate,
                "detail": finding.detail,
                "worst": worst,
                "output_hash": digest,
                "exact": finding.exact,
            }
        if poison is not None:
            self._with_room(lambda: self._make_ready(poison["case"], poison["pattern"]))
        return result

    def _make_ready(self, case: int, pattern: int) -> None:
        variant, item = self._case(case)
        tensors = self._reference(variant, item)[0]
        if self._placed == case:
            variant.stage.again(tensors, pattern)
        else:
            variant.stage.load(tensors, item.placement, pattern)
        variant.stage.push()
        self._placed = case

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
        stage.ask_written(doubts)
        first = self._first.get(case) if repeat > 0 else None
        if first is not None:
            outputs, finding, digest = first
            other = f"run {repeat + 1} gave other bits than the first run on the same input"
            for room, out in zip(stage.outputs, outputs, strict=True):
                doubts.ask(room.differs(out), lambda room=room: f"{room.slot.name}: {other}", "repeats")  # type: ignore[misc]
            words, gate = doubts.first()
            return (Finding("wrong_value", words, 2.0, gate=gate), "") if words else (finding, digest)
        tensors, bounds = self._reference(variant, item)
        stage.ask_changed(doubts, tensors)
        outputs = [room.private() for room in stage.outputs]
        for room, out, bound in zip(stage.outputs, outputs, bounds, strict=True):
            left = room.left(out, bound.eager)
            doubts.ask(left.any(), _unwritten(bound.name, left), "poison")
        words, gate = doubts.first()
        if words:
            return Finding("wrong_value", words, 2.0, gate=gate), ""
        finding, digest = compare(bounds, outputs), digest_of(outputs)
        self._first = {k: v for k, v in self._first.items() if k in self._keep}
        self._first[case] = (outputs, finding, digest)
        return finding, digest

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


def _unwritten(name: str, left: torch.Tensor) -> Callable[[], str]:
    return lambda: f"{name}: {int(left.sum())} of {left.numel()} elements were not written"


def _major(variants: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the variants that take most of a card's time, the heaviest first; the others are judged on fewer inputs."""
    taken = {v["id"]: v["calls"] * v["eager_us"] for v in variants}
    order = sorted(taken, key=lambda i: -taken[i])
    held = itertools.accumulate(taken[i] for i in order)
    enough = next(
        (n for n, sum_ in enumerate(held, 1) if sum_ >= _MAJOR_PART * sum(taken.values())), len(order)
    )
    return order[: min(enough, _MAJOR_MOST)]
