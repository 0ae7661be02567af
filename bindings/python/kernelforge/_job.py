"""One call of `optimize`, step by step: profile, choose cards, search, write the pack, serve it, measure the model, report.

It owns the order of the steps and the identity of a study. Each step lives elsewhere: `_profile`, `_search`, `_pack`, `_report`.
"""

from __future__ import annotations

import datetime
import fnmatch
import hashlib
import json
import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core, _ext, _measure, _needs, _pack, _pins, _search, _settings, _studies
from ._inputs import device_of, forward_of
from ._profile import profile
from ._progress import Progress
from ._report import SCHEMA, Report, rows_of
from .errors import EnvironmentFault, UsageFault, VerifyFault

log = logging.getLogger("kernelforge")

CANDIDATES = 24  # an operator; good starts come first, so most of the gain is in the first dozen
_BLOCKS = 30  # pairs for the whole model
_MODEL_SECONDS = 30.0  # at most, for these pairs
_STUDY_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"  # as the store has it


@dataclass(frozen=True)
class Asked:
    """The arguments of `optimize`, checked."""

    study: str | None
    store: Path
    ops: str | tuple[str, ...]
    min_share: float
    candidates: int
    max_seconds: float | None
    seed: int
    review: bool
    exact: bool
    out: str | os.PathLike[str] | None
    fresh: bool
    progress: str | bool
    name: str
    note: str

    def __post_init__(self) -> None:
        if self.study is not None and not re.fullmatch(_STUDY_NAME, self.study):
            raise UsageFault(
                f"optimize into the study `{self.study}`: this cannot be a name",
                hint="use letters, digits, `_`, `.` and `-`, at most 64",
            )
        if not 0 <= self.min_share <= 1:
            raise UsageFault(f"optimize with min_share={self.min_share}: it is a share (expected 0 to 1)")
        if self.candidates < 1 or (self.max_seconds is not None and not self.max_seconds > 0):
            given = f"candidates={self.candidates}, max_seconds={self.max_seconds}"
            raise UsageFault(f"optimize with {given}: nothing could be tried (expected 1 or more, above 0)")

    def wants(self, overload: str) -> bool:
        """Return whether `ops` names this overload."""
        patterns = (self.ops,) if isinstance(self.ops, str) else self.ops
        names = (overload, overload.removeprefix("aten::"))
        return self.ops == "auto" or any(fnmatch.fnmatchcase(n, p) for n in names for p in patterns)


class Job:
    """One call of `optimize`. What the machine lacks and what the inputs lack is found before anything is measured."""

    def __init__(self, model: Any, inputs: Any, asked: Asked) -> None:
        self.started = time.monotonic()
        self.asked = asked
        self.model, self.inputs = model, inputs
        self.forward = forward_of(model, inputs)
        self.place = device_of(model, inputs)
        self.seconds: dict[str, float] = {}
        self.store = str(asked.store)
        _settings.writable_folder(asked.store.parent, "store")
        self.cache = _settings.writable_folder(_settings.read().cache, "cache")
        self.compiler = _needs.compiler(self.place)
        self.extension = _ext.load()
        _core.call("version")
        try:
            self.pins = _pins.pins(self.extension.abi(), self.compiler, self.place)
        except RuntimeError as e:  # the runtime's words for what is in the way of the device, hint included
            text, _, hint = str(e).partition("\nhint: ")
            raise EnvironmentFault(f"search kernels on {self.place.device}: {text}", hint=hint) from e

    def run(self) -> Report:
        """Carry out the steps; return the report."""
        with self.place.current():
            return self._run()

    def _run(self) -> Report:
        self.bar = Progress(self.asked.progress)
        self.bar.say(f"profiling {self.asked.name}")
        with _pack.disabled():
            self.profile = profile(self.model, self.inputs)
        self.seconds["profile"] = time.monotonic() - self.started
        self.reasons = self._choose()
        self.study = self.asked.study or self._identity()
        out = self.asked.out
        self.folder = _pack.folder_of(out) if out is not None else _settings.read().pack_folder / self.study
        if self.asked.fresh and _studies.find(self.study, self.store):
            _core.call("store.clear", store=self.store, study=self.study)
        stored = _studies.load(self.study, self.store) if _studies.find(self.study, self.store) else None
        if stored and self._answers(stored["result"]):
            return self._again(stored["result"])
        if stored:
            self._keep_cards({r["card"] for r in stored["runs"]})
        return self._result(self._drive() if self.cards else _search.Outcome({}))

    # ---- what is searched ---------------------------------------------------------------------------------------

    def _choose(self) -> dict[str, str]:
        """Split the cards into those to search and those that eager keeps; return the reasons of the latter."""
        templates = {o["overload"] for o in self.extension.op_table() if o["template"]}
        reasons: dict[str, str] = {}
        for card in self.profile.cards:
            if card["overload"] not in templates:
                reasons[card["id"]] = "no template serves it"
            elif not self.asked.wants(card["overload"]):
                reasons[card["id"]] = "not asked for"
            elif card["share"] < self.asked.min_share:
                reasons[card["id"]] = f"below {100 * self.asked.min_share:g} % of the forward"
            elif self.place.cuda and (lacks := _needs.lacking(card, self.place)):
                reasons[card["id"]] = lacks
        self.cards = [c for c in self.profile.cards if c["id"] not in reasons]
        return reasons

    def _keep_cards(self, began: set[str]) -> None:
        """Give a study the cards it began with: shares near `min_share` would else change the set from call to call."""
        more = [
            c["overload"]
            for c in self.cards
            if c["id"] not in began and c["share"] >= 2 * self.asked.min_share
        ]
        if more:
            raise UsageFault(
                f"resume the study `{self.study}`: it began without {', '.join(sorted(set(more)))} (asked for now)",
                hint="give it another name with study=..., or begin it again with fresh=True",
            )
        self.cards = [c for c in self.profile.cards if c["id"] in began]

    def _identity(self) -> str:
        """Name a study by what was asked: model, every call it makes, machine. Shares move from run to run, so they do not count."""
        calls = sorted(
            (c["id"], sorted(json.dumps(v["call"], sort_keys=True) for v in c["variants"]))
            for c in self.profile.cards
        )
        a = self.asked
        words = json.dumps([a.name, calls, self.pins, a.ops, a.min_share, a.seed])
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", a.name).strip("-.")[:48] or "model"
        return f"{stem}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"

    # ---- a finished study ---------------------------------------------------------------------------------------

    def _answers(self, result: dict[str, Any] | None) -> bool:
        """Return whether a stored result answers this call: nothing else asked, no larger budget than was used."""
        if not result or result["pins"] != self.pins:
            return False
        had, a = result["budget"], self.asked
        if any(had[k] != v for k, v in self._wishes().items()) or a.candidates > had["candidates"]:
            return False
        return not had["out_of_time"] or (a.max_seconds is not None and a.max_seconds <= had["max_seconds"])

    def _wishes(self) -> dict[str, Any]:
        """Return what must be the same for a stored result to answer, as JSON keeps it."""
        a = self.asked
        ops = a.ops if isinstance(a.ops, str) else list(a.ops)
        return {"ops": ops, "min_share": a.min_share, "exact": a.exact, "review": a.review}

    def _again(self, data: dict[str, Any]) -> Report:
        """Serve the pack of a finished study; nothing is searched or measured again."""
        data = {**data, "reused": True}
        if data["pack"]:
            if not (self.folder / "pack.json").exists():
                _core.call("pack.write", store=self.store, study=self.study, path=str(self.folder))
            data["pack"] = str(self.folder)
            # Under review, what was approved since then serves; what still waits does not.
            data["review"] = any(p["state"] == "proposed" for p in _pack.read(self.folder)["plans"])
            _pack.apply(self.folder, exact=self.asked.exact, device=self._device())
        log.info("study `%s` is finished: its pack serves again", self.study)
        return Report(data)

    # ---- a search -----------------------------------------------------------------------------------------------

    def _drive(self) -> _search.Outcome:
        from .referee import Referee

        self.bar.names = {c["id"]: c["overload"].removeprefix("aten::") for c in self.cards}
        self.profile.forget_payloads({c["id"] for c in self.cards})
        self.place.trim()
        begin = time.monotonic()
        _core.call(
            "study.start",
            store=self.store,
            study=self.study,
            target=self.place.target,
            model=self.asked.name,
            cards=self.cards,
            pins=self.pins,
            settings=self._settings(),
        )
        with Referee(
            self.profile,
            self.forward,
            seed=self.asked.seed,
            model=self.model,
            inputs=self.inputs,
            place=self.place,
        ) as referee:
            outcome = _search.drive(self.study, referee.execute, self.bar)
        confirm = sum(outcome.seconds.get(kind, 0.0) for kind in ("confirm", "confirm_model"))
        self.seconds["search"], self.seconds["confirm"] = time.monotonic() - begin - confirm, confirm
        return outcome

    def _settings(self) -> dict[str, Any]:
        a = self.asked
        return {
            "seed": a.seed,
            "candidates": a.candidates,
            "seconds": a.max_seconds or 0,
            "review": a.review,
            "worker": str(_core.WORKER),
            "runtime": str(_core.RUNTIME),
            "cache": str(self.cache),
            "jobs": len(os.sched_getaffinity(0)),
            **_needs.tools(self.place, self.compiler),
        }

    # ---- what it came to ----------------------------------------------------------------------------------------

    def _result(self, outcome: _search.Outcome) -> Report:
        """Write the pack, serve it, measure the whole model, store the report."""
        a = self.asked
        runs, plans = [], []
        if self.cards:
            runs = _studies.load(self.study, self.store)["runs"]
            if _core.call("pack.write", store=self.store, study=self.study, path=str(self.folder))["plans"]:
                plans = [p for p in _pack.read(self.folder)["plans"] if p["exact"] or not a.exact]
        serving = bool(plans) and not a.review
        if serving:
            _pack.apply(self.folder, exact=a.exact, device=self._device())
            # The study's measurement counts only if it was of just these plans.
            seen = outcome.model
            if seen is not None and sorted(seen["plans"]) != sorted(p["id"] for p in plans):
                seen = None
            outputs = self._checked_outputs(seen)
            model = self._whole_model(seen)
        else:
            outputs, model = {}, {"ratio": None, "why": self._why_not(plans)}
        self.seconds["total"] = time.monotonic() - self.started
        data = {
            "schema": SCHEMA,
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "name": a.name,
            "note": a.note,
            "study": self.study,
            "store": self.store,
            "pack": str(self.folder) if plans else None,
            "review": a.review and bool(plans),
            "reused": False,
            "env": _pins.environment(self.place),
            "pins": self.pins,
            "budget": {
                **self._wishes(),
                "candidates": a.candidates,
                "max_seconds": a.max_seconds,
                "out_of_time": any("seconds" in r["why"] for r in runs),
            },
            "rows": rows_of(
                self.profile.cards,
                plans,
                {r["card"]: _studies.verdicts(r) for r in runs},
                self._reasons(runs),
            ),
            "attributed": round(self.profile.attributed, 4),
            "timed_by": self.profile.timed_by,
            "telemetry": self.profile.telemetry,
            "model": model,
            "outputs": outputs,
            "seconds": {k: round(v, 2) for k, v in self.seconds.items()},
            "tree": _studies.trees(runs),
        }
        if self.cards:
            _core.call("store.result", store=self.store, study=self.study, result=data)
        return Report(data)

    def _checked_outputs(self, seen: dict[str, Any] | None) -> dict[str, Any]:
        """Judge the model's outputs with the pack served; withdraw it if they are not as right as eager's."""
        from .referee.model import Model, outputs_of

        if seen is not None:
            status, detail = seen["status"], seen["detail"]
        else:
            judge = Model(self.forward, self.model, self.inputs, self.place)
            status, detail = judge.compare(judge.eager(self.extension), outputs_of(self.forward, self.place))
        if status != "ok":
            _pack.restore(self.folder)
            raise VerifyFault(
                f"optimize `{self.asked.name}`: the model's outputs with plans are not as right as eager's: {detail}; its plans are not served",
                hint=f"`kernelforge verify {self.folder}` judges each plan alone; please report this",
            )
        return {"status": status, "detail": detail}

    def _whole_model(self, seen: dict[str, Any] | None) -> dict[str, Any]:
        """Return the paired time of the forward with and without plans: the study's own measurement if it is long enough."""
        if seen is not None and len(seen["on_ms"]) >= _BLOCKS:
            return _measure.from_pairs(seen["off_ms"], seen["on_ms"]).to_dict()
        self.bar.say("measuring the whole model, plans on and off in turn")
        return _measure.whole_model(
            self.forward,
            self.extension.set_enabled,
            blocks=_BLOCKS,
            seed=self.asked.seed,
            max_seconds=_MODEL_SECONDS,
            place=self.place,
        )

    def _device(self) -> str | None:
        return self.place.device if self.place.cuda else None

    def _why_not(self, plans: list[dict[str, Any]]) -> str:
        if plans:
            return "winners wait for approval"
        return "no operator gained enough to be served" if self.cards else "no operator was worth a search"

    def _reasons(self, runs: list[dict[str, Any]]) -> dict[str, str]:
        """Say for each searched card without a plan how near it came."""
        reasons = dict(self.reasons)
        for run in runs:
            reasons.setdefault(run["card"], _why_eager(run))
        return reasons


def _why_eager(run: dict[str, Any]) -> str:
    if len(run["nodes"]) > 1:
        best, measured = run["best"], [c for c in run["confirmed"] if not c["accepted"]]
        if measured:
            nearest: dict[str, Any] = max(measured, key=lambda c: c["ratio"])
            return f"best candidate when confirmed: {nearest['detail']}"
        return (
            f"best candidate {1 / best:.2f}x in search, no gain confirmed"
            if best < 1
            else "no candidate was faster"
        )
    if not run["why"] or run["why"].startswith("budget"):
        return "not reached within the budget"
    return str(run["why"]).splitlines()[0]
