"""Carries out the tasks of docs/formats.md for the core, one after the other: prepare, check, time_eager, confirm, confirm_fresh,
confirm_model, release.

It owns the cards that are open, their shared memory and their references. While a task runs, the worker is idle.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from .. import _ext, _fresh, _turns
from .._place import HOST, Place, attempt
from ..errors import RefereeFault
from .cases import Variant
from .confirm import NotLoaded, confirm, open_plan, refused, serving, unserved
from .exhaustive import NotServed, Swept, sweep, through_dispatcher
from .model import Model, confirm_model
from .opened import Controls, OpenCard, Profiled

log = logging.getLogger("kernelforge")
_STEPS = ("memory", "references", "controls")  # of preparing a card


class Referee:
    """The trusted half of the judge, for the cards of one profile.

    Args:
        profile: cards and captured payloads.
        forward: one forward of the model, for `confirm_model`.
        seed: chance of `confirm_model`; the other tasks bring their own.
        model, inputs: as given to `profile`; with them the whole model's outputs are held against a float64 run.
        place: where the cards ran: buffers, references and comparisons are there.
        fresh: processes for `confirm_fresh` that start with `expect`, or beside the preparation of the first card, and wait; 0: when they are needed.

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
        fresh: int = 0,
    ) -> None:
        self._profile, self._forward, self._seed, self._place = profile, forward, seed, place
        self._model = None if forward is None else Model(forward, model, inputs, place)
        self._ahead = _fresh.Ahead(fresh, 0 if place.cuda else torch.get_num_threads())
        self._open: dict[str, OpenCard] = {}
        self._controls: dict[
            tuple[str, int], Controls
        ] = {}  # by card and seed: they hold for all its candidates
        self._swept: dict[str, Swept | None] = {}  # by plan: a confirmation asks several times
        self._tasks: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "prepare": self._prepare,
            "check": lambda t: self._card(t).check(t["compare"], t["poison"]),
            "time_eager": lambda t: self._card(t).time_eager(t["variant"], t["samples"], t["inner"]),
            "confirm": self._confirm,
            "confirm_fresh": self._confirm_fresh,
            "confirm_model": self._confirm_model,
            "release": self._release,
        }

    def __enter__(self) -> Referee:
        return self

    def __exit__(self, *exc: object) -> None:
        self._ahead.__exit__(*exc)
        self._place.wait()  # nothing may run on memory that is about to go
        self._open.clear()

    def expect(self) -> None:
        """Get ready for winners: there will be a search. Nothing may be timed until a card is prepared."""
        self._ahead.begin()

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
        began, off, key = time.monotonic(), task.get("off", ()), (card["id"], task["seed"])
        with self._ahead.settled():
            opened = OpenCard(card, self._profile, task["seed"], self._place, off, self._controls.get(key))
        self._open[card["id"]] = opened
        if not off:
            self._controls[key] = opened.controls
        self._place.trim()
        log.info(
            "prepared `%s`: %d cases in %.1f s (%s)",
            card["overload"],
            len(opened.cases),
            time.monotonic() - began,
            ", ".join(
                f"{what} {b - a:.1f}" for what, (a, b) in zip(_STEPS, pairwise(opened.clock), strict=True)
            ),
        )
        return opened.prepared()

    def _release(self, task: dict[str, Any]) -> dict[str, Any]:
        self._open.pop(task["card"], None)
        self._place.trim()
        return {}

    def _confirm(self, task: dict[str, Any]) -> dict[str, Any]:
        payload = self._profile.payload(task["card"], task["variant"])
        variant = Variant(task["plan"]["call"], payload, task["seed"], self._place, task.get("off", ()))
        answers: list[dict[str, Any]] = []
        if not attempt(self._place, lambda: answers.append(self._confirmed(variant, task))):
            answers.append(refused("launch_error", f"{self._place.device} has no room to confirm it"))
        self._place.trim()
        return answers[0]

    def _confirmed(self, variant: Variant, task: dict[str, Any]) -> dict[str, Any]:
        """Hold a finalist against eager on all inputs of its operator, where it has one input, then time it."""
        plan = task["plan"]
        if plan["id"] not in self._swept:
            try:
                self._swept[plan["id"]] = _sweep(variant, plan, task["image"])
            except NotLoaded as e:
                return refused(e.status, str(e))
            except NotServed as e:
                return refused("launch_error", unserved(_ext.load(), str(e)))
        swept = self._swept[plan["id"]]
        if swept is not None and swept.finding.status != "ok":
            return refused(swept.finding.status, swept.finding.detail, swept.finding.gate)
        answer = confirm(variant, plan, task["image"], task["blocks"], task["seed"])
        if swept is not None:
            answer["exact"] = answer["exact"] and swept.finding.exact
            answer["exhaustive"] = {"inputs": swept.inputs, "of": swept.of}
        return answer

    def _confirm_fresh(self, task: dict[str, Any]) -> dict[str, Any]:
        self._place.trim()
        with _turns.alone(self._place):
            return _fresh.serve(
                task["plans"],
                place=self._place,
                processes=task["processes"],
                blocks=task["blocks"],
                seed=task["seed"],
                seconds=task["seconds"],
                ahead=self._ahead,
            )

    def _confirm_model(self, task: dict[str, Any]) -> dict[str, Any]:
        if self._forward is None or self._model is None:
            raise RefereeFault("confirm the whole model: this referee was made without a forward")
        with _turns.alone(self._place):
            answer = confirm_model(self._forward, self._model, task["plans"], task["blocks"], self._seed)
        self._place.trim()
        return answer


def _sweep(variant: Variant, plan: dict[str, Any], image: str) -> Swept | None:
    if "exhaustive" in variant.off:
        return None
    extension = _ext.load()
    opened = open_plan(extension, plan, image, variant.place)
    with serving(extension, [opened]):
        return sweep(variant, through_dispatcher(extension, opened, variant.overload.name))
