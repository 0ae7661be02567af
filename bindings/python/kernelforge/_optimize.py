"""`optimize`: profile, choose cards, search, write the pack, serve it, report. A second call on a finished study serves its pack at once.

It owns the order of these steps and the identity of a study. Each step lives elsewhere: `_profile`, `_search`, `_pack`, `_report`.
"""

from __future__ import annotations

import datetime
import fnmatch
import hashlib
import json
import logging
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import _core, _ext, _measure, _outputs, _pack, _pins, _search, _settings, _studies
from ._inputs import device_of, forward_of, name_of
from ._profile import profile
from ._progress import Progress
from ._report import SCHEMA, Report, rows_of
from .errors import EnvironmentFault, UsageFault

log = logging.getLogger("kernelforge")
Model = TypeVar("Model", bound=Callable[..., Any])

CANDIDATES = (
    24  # an operator; the templates' good starts come first, so most of the gain is in the first dozen
)
_BLOCKS = 30  # pairs for the whole model
_MODEL_SECONDS = 30.0  # at most, for these pairs

_reports: weakref.WeakKeyDictionary[Any, Report] = weakref.WeakKeyDictionary()
_last: Report | None = None


def optimize(
    model: Model,
    inputs: Any,
    *,
    study: str | None = None,
    store: str | os.PathLike[str] | None = None,
    ops: str | Sequence[str] = "auto",
    min_share: float = 0.01,
    candidates: int = CANDIDATES,
    max_seconds: float | None = None,
    seed: int = 0,
    review: bool = False,
    exact: bool = False,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: str | bool = "auto",
    name: str | None = None,
    note: str = "",
) -> Model:
    """Search faster kernels for a model's operators and serve those whose gain was confirmed; return the same model.

    The caller's modes hold: call it under `torch.no_grad()` if that is how the model will run.

    Args:
        model: any callable; a module is not changed.
        inputs: a tensor, a tuple of arguments, a dict of keyword arguments, or ((arguments), {keywords}).
        study: name of the study; default: made from model, shapes and machine. An unfinished study of the name is resumed.
        store: file of the store; default: `KERNELFORGE_HOME` or the XDG data folder.
        ops: "auto", or names of operators (patterns allowed): `["max_pool2d*", "aten::cat"]`.
        min_share: least share of the forward's operator time, 0 to 1, that is worth a search.
        candidates: candidates an operator at most.
        max_seconds: seconds of search at most; None: until the candidates are used up.
        seed: chance of inputs, order of timing and search.
        review: leave winners proposed until `kernelforge approve`; nothing is served.
        exact: serve only plans that are bitwise equal to eager on everything judged.
        out: folder of the pack; default: in the packs folder beside the store.
        fresh: forget what the study has and begin again.
        progress: "auto" (a bar on terminals), True or False.
        name, note: what reports call the model, and what they say about it.

    Raises:
        UsageFault, ModelFault: no inputs, inputs on several devices, a model that raises.
        EnvironmentFault: no compiler, extension or core; store or cache not writable.
        LockedFault: another process searches this study.
        Interrupted: Ctrl-C; what was measured is saved, the same call resumes.

    Example:
        >>> with torch.no_grad():
        ...     model = kernelforge.optimize(model, (x,))
        >>> print(kernelforge.report(model))
    """
    global _last
    if _settings.read().disabled:
        log.warning("KERNELFORGE_DISABLE is set: nothing is searched, eager runs")
        return model
    report = _Job(
        model,
        inputs,
        study,
        store,
        ops,
        min_share,
        candidates,
        max_seconds,
        seed,
        review,
        exact,
        out,
        fresh,
        progress,
        name,
        note,
    ).run()
    try:
        _reports[model] = report
    except TypeError:
        log.debug(
            "`%s` cannot be referred to weakly: report() without a model gives its report", name_of(model)
        )
    _last = report
    return model


def report(subject: Any = None, *, store: str | os.PathLike[str] | None = None) -> Report:
    """Return the report of a model that was optimized in this process, of a study by its name, or the last one.

    Raises:
        UsageFault: there is none.

    Example:
        >>> kernelforge.report(model).save("report.html")
    """
    if isinstance(subject, str):
        return _studies.stored_report(subject, store)
    try:
        found = _last if subject is None else _reports.get(subject)
    except TypeError:
        found = None
    if found is None:
        what = "no model was optimized" if subject is None else f"`{name_of(subject)}` was not optimized"
        raise UsageFault(
            f"report: {what} in this process",
            hint="call kernelforge.optimize first, or name a study: kernelforge.report('googlenet-...')",
        )
    return found


class _Job:
    """One call of `optimize`."""

    def __init__(self, model: Any, inputs: Any, study: str | None, store: Any, ops: str | Sequence[str], min_share: float, candidates: int,
                 max_seconds: float | None, seed: int, review: bool, exact: bool, out: Any, fresh: bool, progress: str | bool,
                 name: str | None, note: str) -> None:  # fmt: skip
        if not 0 <= min_share <= 1:
            raise UsageFault(f"optimize with min_share={min_share}: it is a share (expected 0 to 1)")
        if candidates < 1 or (max_seconds is not None and not max_seconds > 0):
            raise UsageFault(
                f"optimize with candidates={candidates}, max_seconds={max_seconds}: nothing could be tried (expected 1 or more, above 0)"
            )
        self.started = time.monotonic()
        self.model, self.inputs = model, inputs
        self.forward = forward_of(model, inputs)
        self.device = device_of(model, inputs)
        self.name, self.note = name or name_of(model), note
        self.store = _settings.store_path(store)
        self.ops = ops if isinstance(ops, str) else sorted(ops)
        self.min_share, self.candidates, self.max_seconds, self.seed = (
            min_share,
            candidates,
            max_seconds,
            seed,
        )
        self.review, self.exact, self.fresh, self.progress = review, exact, fresh, progress
        self.wanted_study, self.out = study, out
        self.seconds: dict[str, float | None] = {}
        _settings.writable_folder(self.store.parent, "store")
        self.cache = _settings.writable_folder(_settings.read().cache, "cache")
        self.compiler = _compiler()
        self.extension = _ext.load()
        _core.call("version")
        self.pins = _pins.pins(self.extension.abi(), self.compiler)

    def run(self) -> Report:
        with _pack.disabled():
            self.profile = profile(self.model, self.inputs)
        self.seconds["profile"] = time.monotonic() - self.started
        self.reasons = self._choose()
        self.study = self.wanted_study or self._identity()
        self.folder = (
            _pack.folder_of(self.out) if self.out is not None else _settings.read().pack_folder / self.study
        )
        if self.fresh and _studies.find(self.study, self.store):
            _core.call("store.clear", store=str(self.store), study=self.study)
        finished = self._finished()
        return self._again(finished) if finished else self._search_now()

    # ---- what is searched ----

    def _choose(self) -> dict[str, str]:
        """Split the cards into those to search and those that eager keeps; return the reasons of the latter."""
        table = {o["overload"]: o for o in self.extension.op_table()}
        reasons: dict[str, str] = {}
        for card in self.profile.cards:
            facts = table.get(card["overload"])
            if facts is None or not facts["template"]:
                reasons[card["id"]] = "no template serves it (the vendor's library or eager runs)"
            elif self.ops != "auto" and not any(
                _matches(card["overload"], p) for p in ([self.ops] if isinstance(self.ops, str) else self.ops)
            ):
                reasons[card["id"]] = "not asked for"
            elif card["share"] < self.min_share:
                reasons[card["id"]] = f"below {100 * self.min_share:g} % of the forward"
        self.cards = [c for c in self.profile.cards if c["id"] not in reasons]
        return reasons

    def _identity(self) -> str:
        """Name a study by what was asked: model, every call it makes, machine. Shares move from run to run, so they do not count."""
        calls = sorted(
            (c["id"], sorted(json.dumps(v["call"], sort_keys=True) for v in c["variants"]))
            for c in self.profile.cards
        )
        asked = [self.name, calls, self.pins, self.ops, self.min_share, self.seed]
        return f"{self.name}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:8]}"

    # ---- a finished study ----

    def _finished(self) -> dict[str, Any] | None:
        """Return the stored result if it answers this call: same study, no larger budget asked than was used."""
        if not _studies.find(self.study, self.store):
            return None
        result = _studies.load(self.study, self.store).get("result")
        if not result:
            return None
        had = result["budget"]
        enough_time = (
            had["max_seconds"] is None
            or (self.max_seconds is not None and self.max_seconds <= had["max_seconds"])
            or not had["out_of_time"]
        )
        same = had["exact"] == self.exact and had["review"] == self.review and result["pins"] == self.pins
        return result if same and self.candidates <= had["candidates"] and enough_time else None

    def _again(self, data: dict[str, Any]) -> Report:
        """Serve the pack of a finished study; nothing is searched or measured again."""
        if data["pack"] and not (self.folder / "pack.json").exists():
            _core.call("pack.write", store=str(self.store), study=self.study, path=str(self.folder))
        if data["pack"] and not self.review:
            _pack.apply(self.folder, exact=self.exact)
        log.info("study `%s` is finished: its pack is served again", self.study)
        data = {**data, "pack": str(self.folder) if data["pack"] else None, "reused": True}
        return Report(data)

    # ---- a search ----

    def _search_now(self) -> Report:
        outcome = _search.Outcome({})
        known = self._resumed_cards()
        if self.cards:
            from .referee import Referee

            bar = Progress(self.progress, {c["id"]: c["overload"].removeprefix("aten::") for c in self.cards})
            _core.call(
                "study.start",
                store=str(self.store),
                study=self.study,
                target="host",
                model=self.name,
                cards=known,
                pins=self.pins,
                settings=self._settings(),
            )
            searching = time.monotonic()
            with Referee(self.profile, self.forward, seed=self.seed) as referee:
                outcome = _search.drive(str(self.store), self.study, referee.execute, bar)
            confirm = outcome.seconds.get("confirm", 0.0) + outcome.seconds.get("confirm_model", 0.0)
            self.seconds["search"], self.seconds["confirm"] = time.monotonic() - searching - confirm, confirm
        return self._result(outcome)

    def _resumed_cards(self) -> list[dict[str, Any]]:
        """Give a study that exists the cards it began with: shares near `min_share` would else change the set from call to call."""
        if not self.cards or not _studies.find(self.study, self.store):
            return self.cards
        began = {r["card"] for r in _studies.load(self.study, self.store)["runs"]}
        return [c for c in self.profile.cards if c["id"] in began] if began else self.cards

    def _settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "c": 0.5,
            "candidates": self.candidates,
            "seconds": self.max_seconds or 0,
            "min_gain": 0.01,
            "review": self.review,
            "worker": str(_core.WORKER),
            "runtime": str(_core.RUNTIME),
            "compiler": self.compiler,
            "cache": str(self.cache),
            "jobs": max(1, len(os.sched_getaffinity(0))),
            "scratch": str(self.cache / "scratch"),
        }

    def _result(self, outcome: _search.Outcome) -> Report:
        """Write the pack, serve it, measure the whole model, store the report."""
        runs = _studies.load(self.study, self.store)["runs"] if self.cards else []
        written = (
            _core.call("pack.write", store=str(self.store), study=self.study, path=str(self.folder))
            if self.cards
            else {"plans": 0}
        )
        plans: list[dict[str, Any]] = []
        if written["plans"]:
            plans = [p for p in _pack.read(self.folder)["plans"] if p["exact"] or not self.exact]
        serving = bool(plans) and not self.review
        if serving:
            _pack.apply(self.folder, exact=self.exact)
        model, outputs = (
            self._whole_model(outcome, [p["id"] for p in plans])
            if serving
            else ({"ratio": None, "why": self._why_not(plans)}, {})
        )
        overloads = {c["id"]: c["overload"] for c in self.profile.cards}
        rows = rows_of(
            self.profile.cards,
            plans,
            [{"card": r["card"], "verdicts": _studies.verdicts(r)} for r in runs],
            self._reasons(runs),
        )
        self.seconds["total"] = time.monotonic() - self.started
        data = {
            "schema": SCHEMA,
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "name": self.name,
            "note": self.note,
            "study": self.study,
            "store": str(self.store),
            "pack": str(self.folder) if plans else None,
            "review": self.review and bool(plans),
            "reused": False,
            "env": _pins.environment(),
            "pins": self.pins,
            "budget": {"candidates": self.candidates, "max_seconds": self.max_seconds, "exact": self.exact, "review": self.review,
                       "out_of_time": self.max_seconds is not None and (self.seconds.get("search") or 0) >= self.max_seconds},
            "rows": rows,
            "model": model,
            "outputs": outputs,
            "seconds": {k: round(v, 2) for k, v in self.seconds.items() if v is not None},
            "tree": _studies.trees(runs, overloads),
        }  # fmt: skip
        if self.cards:
            _core.call("store.result", store=str(self.store), study=self.study, result=data)
        return Report(data)

    def _whole_model(
        self, outcome: _search.Outcome, served: list[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the paired time of the forward with and without plans, and how its outputs compare with eager's."""
        outputs = _outputs.compare(self.forward, self.extension)
        seen = outcome.model
        if seen is not None and sorted(seen["plans"]) == sorted(served) and len(seen["on_ms"]) >= _BLOCKS:
            return _measure.from_pairs(seen["off_ms"], seen["on_ms"]).to_dict(), outputs
        timed = _measure.time_model(
            self.forward,
            self.extension.set_enabled,
            blocks=_BLOCKS,
            seed=self.seed,
            max_seconds=_MODEL_SECONDS,
        )
        return timed.to_dict(), outputs

    def _why_not(self, plans: list[dict[str, Any]]) -> str:
        if plans:
            return "winners wait for approval"
        return "no operator gained enough to be served" if self.cards else "no operator was worth a search"

    def _reasons(self, runs: list[dict[str, Any]]) -> dict[str, str]:
        """Say for each searched card without a plan how near it came."""
        reasons = dict(self.reasons)
        for run in runs:
            best = run.get("best")
            reasons.setdefault(
                run["card"],
                f"best candidate {1 / best:.2f}x in search, no gain confirmed"
                if best and best < 1
                else "no candidate was faster",
            )
        return reasons


def _matches(overload: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(overload, pattern) or fnmatch.fnmatchcase(
        overload.removeprefix("aten::"), pattern
    )


def _compiler() -> str:
    found = _settings.compiler()
    if found is None:
        asked = _settings.read().compiler
        raise EnvironmentFault(
            f"search kernels: the compiler `{asked}` of KERNELFORGE_COMPILER is not there"
            if asked
            else "search kernels: no C++ compiler found (looked for g++, clang++)",
            hint="install g++ (Debian: apt-get install g++) or set KERNELFORGE_COMPILER; packs that exist are served without one",
        )
    return found


