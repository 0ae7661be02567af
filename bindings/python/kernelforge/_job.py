"""One call of `optimize`, step by step: profile, choose cards, search, and what it came to.

It owns the order of the steps and the identity of a study. Each step lives elsewhere: `_profile`, `_search`, `_outcome`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from typing import TYPE_CHECKING, Any

from . import _authors, _core, _ext, _interrupts, _needs, _outcome, _pack, _pins, _search, _settings, _studies
from ._asked import Asked
from ._callers import Callers
from ._inputs import device_of, forward_of
from ._outputs import OUTPUTS_PASS
from ._profile import profile
from ._progress import Progress
from ._report import Report
from ._state import kept
from .errors import EnvironmentFault, Interrupted, UsageFault

if TYPE_CHECKING:
    from .referee import Referee

log = logging.getLogger("kernelforge")

_CONFIRMS = ("confirm", "confirm_fresh", "confirm_model")
_GOES_ON = "what was searched is saved, and the same call goes on from there"


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


class Job:
    """One call of `optimize`. What the machine lacks and what the inputs lack is found before anything is measured."""

    def __init__(self, model: Any, inputs: Any, asked: Asked) -> None:
        _interrupts.look()
        self.started, self.begun = time.monotonic(), False
        self.asked = asked
        self.interrupts = _interrupts.Interrupts()
        self.callers = Callers(asked.authors.functions)
        self.model, self.inputs = model, inputs
        self.forward = forward_of(model, inputs)
        self.place = device_of(model, inputs)
        self.seconds: dict[str, float] = {}
        self.store = str(asked.store)
        if asked.out is not None:
            _settings.pack_place(_pack.folder_of(asked.out))
        else:
            _settings.writable_folder(_settings.read().pack_folder, "packs", _settings.elsewhere("--out"))
        _settings.writable_folder(asked.store.parent, "store")
        self.cache = _settings.writable_folder(_settings.read().cache, "cache", _settings.elsewhere())
        self.scratch = _settings.scratch_folder()
        self.compiler = _needs.compiler(self.place)
        self.extension = _ext.load()
        asked.check_ops(o["overload"] for o in self.extension.op_table())
        _core.encoded(
            "optimize", store=self.store, cache=str(self.cache), scratch=str(self.scratch), study=asked.study
        )
        _studies.studies(self.store)  # opens it: a damaged or a newer one is told now
        _core.call("version")
        try:
            self.pins = _pins.pins(self.extension.abi(), self.compiler, self.place)
        except RuntimeError as e:  # the runtime's words for what is in the way of the device, hint included
            text, _, hint = str(e).partition("\nhint: ")
            raise EnvironmentFault(f"search kernels on {self.place.device}: {text}", hint=hint) from e

    def run(self) -> Report:
        """Carry out the steps; return the report."""
        try:
            with (
                _interrupts.handled(f"optimize `{self.asked.name}`", _GOES_ON) as self.interrupts,
                self.place.current(),
                kept(self.model, self.inputs, self.place),
            ):
                return self._run()
        except Interrupted:
            raise
        except KeyboardInterrupt:
            hint = "what was searched is saved" if self.begun else "nothing was searched yet"
            raise Interrupted(
                f"optimize `{self.asked.name}`: interrupted\nhint: {hint}; the same call goes on from there"
            ) from None

    def _run(self) -> Report:
        stored = self.begin()
        if stored is None:
            return _outcome.finish(self, self._drive() if self.cards else _search.Outcome({}))
        answers = self._answers(stored)
        if answers and (report := _outcome.again(self, stored["result"])):
            log.info("study `%s` is finished: its pack serves again", self.study)
            return report
        self.keep_cards(stored)
        return _outcome.finish(self, _search.Outcome({}) if answers else self._drive(), written=answers)

    def begin(self) -> dict[str, Any] | None:
        """Profile the model, choose cards, name the study; return what the store has of it, if that is about the same calls."""
        self.bar = Progress(self.asked.progress)
        self.bar.say(f"profiling {self.asked.name}")
        with _pack.disabled():
            self.profile = profile(self.model, self.inputs)
        self.lap("profile", since=self.started)
        self.reasons = self._choose()
        calls = sorted(
            (c["id"], sorted(json.dumps(v["call"], sort_keys=True) for v in c["variants"]))
            for c in self.profile.cards
        )
        self.identity = {"model": self.asked.name, "calls": _hash(calls)}
        self.study = self.asked.study or self._name(calls)
        out = self.asked.out
        self.folder = _pack.folder_of(out) if out is not None else _settings.read().pack_folder / self.study
        if self.asked.fresh and _studies.find(self.study, self.store):
            _core.call("store.clear", store=self.store, study=self.study)
        stored = _studies.load(self.study, self.store) if _studies.find(self.study, self.store) else None
        if stored is not None:
            self._refuse_others(stored)
        return stored

    def lap(self, what: str, *, since: float) -> None:
        """Note how long a step took, unless Ctrl-C came in it. since: on the monotonic clock."""
        self.interrupts.look()
        self.seconds[what] = time.monotonic() - since

    def device(self) -> str | None:
        """Return the device to serve on, None where packs are for the host."""
        return self.place.device if self.place.cuda else None

    # ---- what is searched ---------------------------------------------------------------------------------------

    def _choose(self) -> dict[str, str]:
        """Split the cards into those of the study and those that eager keeps; return the reasons of the latter.

        A card that no template serves is in the study too, open to authors: it costs nothing until one proposes.
        """
        templates = {o["overload"] for o in self.extension.op_table() if o["template"]}
        reasons: dict[str, str] = {}
        self.open: set[str] = set()
        for card in self.profile.cards:
            if not self.asked.wants(card["overload"]):
                reasons[card["id"]] = "not asked for"
            elif card["share"] < self.asked.min_share:
                reasons[card["id"]] = f"below {100 * self.asked.min_share:g} % of the forward"
            elif self.place.cuda and (lacks := _needs.lacking(card, self.place)):
                reasons[card["id"]] = lacks
            if card["overload"] in templates:
                continue
            if card["id"] in reasons:
                reasons[card["id"]] = "no template serves it"
            else:
                self.open.add(card["id"])
        self.cards = [c for c in self.profile.cards if c["id"] not in reasons]
        return reasons

    def keep_cards(self, stored: dict[str, Any]) -> None:
        """Give a study the cards it began with: shares near `min_share` would else change the set from call to call."""
        began = {r["card"] for r in stored["runs"]}
        more = [
            c["overload"]
            for c in self.cards
            if c["id"] not in began | self.open and c["share"] >= 2 * self.asked.min_share
        ]
        if more and not self._asks_what_it_began_with(stored):
            raise UsageFault(
                f"resume the study `{self.study}`: it began without {', '.join(sorted(set(more)))} (asked for now)",
                hint="give it another name with study=..., or begin it again with fresh=True",
            )
        self.reasons |= dict.fromkeys(
            self.open - began, "the study began without it, and no template serves it"
        )
        later = {c["id"] for c in self.cards} - began - self.open
        self.reasons |= dict.fromkeys(
            later, f"below {100 * self.asked.min_share:g} % of the forward when the study began"
        )
        self.cards = [c for c in self.profile.cards if c["id"] in began]

    def _asks_what_it_began_with(self, stored: dict[str, Any]) -> bool:
        """Return whether the study began with these operators and this least share: then a share that has grown since is the machine's load alone."""
        a = self.asked
        if a.study is None:  # its name is made of both
            return True
        had = (stored["result"] or {}).get("budget") or (stored["origin"] or {}).get("asked") or {}
        ops = a.ops if isinstance(a.ops, str) else list(a.ops)
        return bool(had.get("ops") == ops and had.get("min_share") == a.min_share)

    def _name(self, calls: Any) -> str:
        """Name a study by what was asked: model, every call it makes, machine. Shares move from run to run, so they do not count."""
        a = self.asked
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", a.name).strip("-.")[:48] or "model"
        parts = [
            a.name,
            calls,
            self.pins,
            a.ops,
            a.min_share,
            a.seed,
            *(["exact"] if a.exact else []),
            *a.authors.names,
        ]
        return f"{stem}-{_hash(parts)[:8]}"

    # ---- a study that exists ------------------------------------------------------------------------------------

    def _refuse_others(self, stored: dict[str, Any]) -> None:
        """Refuse a study that is about another model or other calls: it has no answer to this one."""
        known = (stored["result"] or {}).get("identity") or {"model": stored["model"]}
        here = {c["id"] for c in self.profile.cards}
        gone = sorted(r["overload"] for r in stored["runs"] if r["card"] not in here)
        if known["model"] != self.asked.name:
            found = f"it is about the model `{known['model']}` (asked: `{self.asked.name}`)"
        elif known.get("calls", self.identity["calls"]) != self.identity["calls"]:
            found = "it is about other calls: other shapes, types, or another grad mode"
        elif gone:
            found = f"it is about calls that this model does not make ({', '.join(gone)})"
        else:
            return
        raise UsageFault(
            f"resume the study `{self.study}`: {found}",
            hint="give this one another name with study=..., or begin again with fresh=True; the same model under another name: pass name=...",
        )

    def _answers(self, stored: dict[str, Any]) -> bool:
        """Return whether a stored result answers this call: nothing else asked, no larger budget than was used, nothing judged since."""
        result = stored["result"]
        if any(r["state"] == "started" for r in stored["runs"]):
            return False  # candidates came from outside, and what they are worth was not confirmed
        if not result or result["pins"] != self.pins or result.get("identity") != self.identity:
            return False
        if (result["outputs"] or {}).get("status", "ok") not in OUTPUTS_PASS:
            return False  # what was refused is tried again, and refused again
        had, a = result["budget"], self.asked
        had = {"authors": [], **had}  # of a result before there were any
        if any(had.get(k) != v for k, v in self.wishes().items()) or a.candidates > had["candidates"]:
            return False
        if result["plans"] and a.processes > had.get("processes", 0):
            return False  # more is asked of its winners than they have shown
        return not had["out_of_time"] or (a.max_seconds is not None and a.max_seconds <= had["max_seconds"])

    def wishes(self) -> dict[str, Any]:
        """Return what must be the same for a stored result to answer, as JSON keeps it."""
        a = self.asked
        ops = a.ops if isinstance(a.ops, str) else list(a.ops)
        return {
            "ops": ops,
            "min_share": a.min_share,
            "seed": a.seed,
            "exact": a.exact,
            "review": a.review,
            "tier": a.tier,
            "authors": [*a.authors.names, *self.callers.names],
            **a.authors.wishes(),
        }

    # ---- a search -----------------------------------------------------------------------------------------------

    def _drive(self) -> _search.Outcome:
        request, begin = self.request(), time.monotonic()
        with _search.opened(self.study, "study.start", **request), self.referee() as referee:
            execute = self.callers.beside(referee.execute)
            told = _authors.teller(self.bar)

            def watch(event: dict[str, Any]) -> None:
                if event["kind"] == "forecast" and event["data"]["candidates"] > 0:
                    referee.expect()
                told(event)

            again = "the same call" + (" without fresh=True (--fresh)" if self.asked.fresh else "")
            outcome = _search.drive(self.study, execute, self.bar, watch, again)
        self.account(outcome, begin)
        return outcome

    def request(self) -> dict[str, Any]:
        """Return what `study.start` is told; memory of what it will not need is given back."""
        a = self.asked
        self.bar.names = {c["id"]: c["overload"].removeprefix("aten::") for c in self.cards}
        cards = [self._with_values(c) for c in self.cards] if a.tell_inputs else self.cards
        self.profile.forget_payloads(
            {c["id"] for c in self.cards} - (set() if a.attend or a.authors else self.open)
        )
        self.place.trim()
        self.begun = True
        return {
            "store": self.store,
            "study": self.study,
            "target": self.place.target,
            "model": a.name,
            "cards": cards,
            "pins": self.pins,
            "settings": self._settings(),
            "authors": [*a.authors.request(), *({"name": name} for name in self.callers.names)],
            **({} if a.origin is None else {"origin": a.origin}),
        }

    def _with_values(self, card: dict[str, Any]) -> dict[str, Any]:
        """Return a card that says roughly what its inputs hold, where the capture kept them: who told us to leaves no more than two digits."""
        from .referee.cases import Variant

        def told(variant: dict[str, Any]) -> dict[str, Any]:
            payload = self.profile.payload(card["id"], variant["id"])
            if payload is None:
                return variant
            moments = Variant(variant["call"], payload, self.asked.seed, self.place).moments
            names = ("mean", "deviation", "least", "largest", "zeros")
            values = [{n: float(f"{x:.2g}") for n, x in zip(names, m, strict=True)} for m in moments]
            return {**variant, "values": values}

        return {**card, "variants": [told(v) for v in card["variants"]]}

    def referee(self) -> Referee:
        """Return what carries out the tasks of the study, a context manager."""
        from .referee import Referee

        # A search on a device likely finds winners, and a start ahead takes nothing there that is timed. Who brings candidates from outside may find
        # none; and on the host the CPUs are what the start and the preparation both need.
        ahead = self.place.cuda and not self.asked.attend
        return Referee(
            self.profile,
            self.forward,
            seed=self.asked.seed,
            model=self.model,
            inputs=self.inputs,
            place=self.place,
            fresh=self.asked.processes if ahead else 0,
        )

    def account(self, outcome: _search.Outcome, begin: float) -> None:
        """Note how long search and confirmation took. begin: of the search, on the monotonic clock."""
        spent = {kind: round(s, 1) for kind, s in sorted(outcome.seconds.items(), key=lambda x: -x[1])}
        log.info("seconds of the referee by task: %s", spent)
        confirm = sum(outcome.seconds.get(kind, 0.0) for kind in _CONFIRMS)
        self.seconds["search"], self.seconds["confirm"] = time.monotonic() - begin - confirm, confirm

    def _settings(self) -> dict[str, Any]:
        a = self.asked
        return {
            "seed": a.seed,
            "candidates": a.candidates,
            "seconds": a.max_seconds or 0,
            "review": a.review,
            "exact": a.exact,
            "processes": a.processes,
            **({"attend": True} if a.attend else {}),
            **a.authors.settings(),
            "worker": str(_core.WORKER),
            "runtime": str(_core.RUNTIME),
            "cache": str(self.cache),
            "scratch": str(self.scratch),
            "jobs": len(os.sched_getaffinity(0)),
            **({} if a.tier is None else {"sandbox_tier": a.tier}),
            **_needs.tools(self.place, self.compiler),
        }
