"""What a search came to: winners are tried on the whole model, and only then kept as a pack, served and reported.

It owns the order of these steps. `kernelforge run` serves every pack that lies in the home, so a pack is written there only after the model with it was as
right as eager and not slower; until then it lies aside, in the cache. One that fails is withdrawn: no pack, nothing served, and the result says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _authors, _core, _ext, _folder, _measure, _pack, _pins, _studies, _turns
from ._outputs import OUTPUTS_PASS, told
from ._report import SCHEMA, Report, rows_of
from ._search import Outcome
from .errors import VerifyFault

if TYPE_CHECKING:
    from ._job import Job

_BLOCKS = 30  # pairs for the whole model
_MODEL_SECONDS = 30.0  # at most, for these pairs
_NO_GAIN = "no gain of the whole model shown"


@dataclass
class _Trial:
    """What the whole model said about a pack. ids: of the plans that served. refused: why the pack is not kept, or ""."""

    ids: list[str] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    refused: str = ""


def again(job: Job, data: dict[str, Any]) -> Report | None:
    """Serve the pack of a finished study; nothing is searched or measured again. None if other plans would serve than those that were measured."""
    a = job.asked
    if not data["pack"]:
        return Report({**data, "reused": True})
    if not _folder.made_by(job.folder, job.study):
        _write(job, job.folder)
    plans = _pack.read(job.folder)["plans"]
    ready = [p["id"] for p in plans if p["state"] == "approved" and (p["exact"] or not a.exact)]
    if sorted(ready) != sorted(data.get("plans", [])):
        return None
    _pack.apply(job.folder, exact=a.exact, device=job.device())
    waiting = any(p["state"] == "proposed" for p in plans)
    return Report({**data, "reused": True, "pack": str(job.folder), "review": waiting})


def finish(job: Job, found: Outcome, *, written: bool = False) -> Report:
    """Try the winners on the whole model, keep or withdraw the pack, store the report.

    Args:
        written: the study's pack lies in its place, with approvals of its own, and is tried there.

    Raises:
        VerifyFault: the model's outputs are not as right as eager's; the pack is withdrawn, the stored result says so.
    """
    a = job.asked
    written = written and _folder.made_by(job.folder, job.study)
    study = _studies.load(job.study, job.store) if job.cards else None
    runs = study["runs"] if study else []
    plans: list[dict[str, Any]] = []
    trial = _Trial()
    if job.cards:
        _pack.forget(job.folder)  # what an earlier call of this process serves is measured anew
        _studies.take_approvals(job.study, job.store, job.folder)
        with _place_of_trial(job, written) as folder:
            plans = [p for p in _pack.read(folder)["plans"] if p["exact"] or not a.exact]
            if any(p["state"] == "approved" for p in plans):
                began = time.monotonic()
                trial = _tried(job, folder, found.model)
                job.lap("measure", since=began)
        # A pack without plans would say nothing, and an older one of this study says what holds no more.
        nothing = not plans and a.out is None
        if trial.refused or nothing:
            _folder.remove(job.folder, job.study)
        elif plans:
            if not written:
                _write(job, job.folder)
            if trial.ids:
                _pack.apply(job.folder, exact=a.exact, device=job.device())
    served = [] if trial.refused else [p for p in plans if p["id"] in trial.ids]
    data = {
        **_about(job),
        "pack": str(job.folder) if plans and not trial.refused else None,
        "plans": [p["id"] for p in served],
        "review": not trial.refused and any(p["state"] == "proposed" for p in plans),
        "withdrawn": trial.refused,
        "reused": False,
        "budget": {
            **job.wishes(),
            "candidates": a.candidates,
            "processes": a.processes,
            "max_seconds": a.max_seconds,
            "out_of_time": any("seconds" in r["why"] for r in runs),
        },
        "rows": rows_of(
            job.profile.cards,
            served,
            {r["card"]: _studies.verdicts(r) for r in runs},
            _reasons(job.reasons, runs, [p for p in plans if p not in served], trial.refused),
        ),
        "model": trial.model or {"ratio": None, "why": _why_not(job, plans)},
        "outputs": trial.outputs,
        "controls": {f"{r['overload']} {r['card']}": r["controls"] for r in runs if r.get("controls")},
        "tree": _studies.trees(runs),
        "authors": _authors.spent(study, runs) if study else None,
    }
    if job.cards:
        _studies.keep(job.study, job.store, data)
    if trial.outputs.get("status", "ok") not in OUTPUTS_PASS:
        raise VerifyFault(
            f"optimize `{a.name}`: {trial.refused}; its plans are not served, and there is no pack",
            hint=f"`kernelforge show {job.study}` shows its winners, and ops=[...] leaves operators out; please report this",
        )
    return Report(data)


def _about(job: Job) -> dict[str, Any]:
    """Return what a report says of model, machine and profile."""
    job.lap("total", since=job.started)
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "schema": SCHEMA,
        "made": made,
        "name": job.asked.name,
        "note": job.asked.note,
        "study": job.study,
        "store": job.store,
        "identity": job.identity,
        "env": _pins.environment(job.place),
        "pins": job.pins,
        "attributed": round(job.profile.attributed, 4),
        "timed_by": job.profile.timed_by,
        "telemetry": job.profile.telemetry,
        "seconds": {k: round(v, 2) for k, v in job.seconds.items()},
    }


# ---- the pack ---------------------------------------------------------------------------------------------------


def _write(job: Job, folder: Path) -> None:
    asked = job.asked
    _core.call(
        "pack.write",
        store=job.store,
        study=job.study,
        path=str(folder),
        review=asked.review,
        exact=asked.exact,
    )


@contextlib.contextmanager
def _place_of_trial(job: Job, written: bool) -> Iterator[Path]:
    """Give the folder of the pack that is tried: aside, until it has passed."""
    if written:
        yield job.folder
        return
    folder = job.cache / "trial" / f"{job.study}.{os.getpid()}"
    for old in folder.parent.glob("*.*"):  # of a process that was killed
        if not Path("/proc", old.name.rpartition(".")[2]).exists():
            shutil.rmtree(old, ignore_errors=True)
    try:
        _write(job, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tried(job: Job, folder: Path, seen: dict[str, Any] | None) -> _Trial:
    """Serve a pack while the whole model is held against eager. seen: the study's own measurement; it counts only if it was of just these plans."""
    ids = _pack.apply(folder, exact=job.asked.exact, device=job.device())
    if seen is not None and sorted(seen["plans"]) != sorted(ids):
        seen = None
    try:
        if not ids:
            return _Trial()
        with _ext.switch(job.extension) as switch:  # the caller may have plans switched off
            switch(True)
            with _turns.beside(job.place):
                outputs = _outputs(job, seen)
            if outputs["status"] not in OUTPUTS_PASS:
                detail = f"the model's outputs with plans are not as right as eager's: {outputs['detail']}"
                return _Trial(
                    ids, outputs, {"ratio": None, "why": "outputs differ from eager's"}, refused=detail
                )
            plans = [p for p in _pack.read(folder)["plans"] if p["id"] in ids]
            with _turns.beside(job.place):
                outputs["accumulation"] = accumulation = _accumulated(job, folder, plans)
            if accumulation["status"] != "ok":
                detail = f"errors of the plans add up: {accumulation['detail']}"
                outputs = {**outputs, "status": accumulation["status"], "detail": detail}
                return _Trial(ids, outputs, {"ratio": None, "why": "errors add up"}, refused=detail)
            model = _whole_model(job, switch, seen)
    finally:
        _pack.forget(folder)
    if model["high"] < 1:
        slower = f"the whole model is slower with plans ({model['ratio']:.2f}x, 95 % interval {model['low']:.2f} to {model['high']:.2f})"
        return _Trial(ids, outputs, {**model, "finding": "slower with plans"}, refused=slower)
    return _Trial(ids, outputs, {**model, "finding": "" if model["low"] > 1 else _NO_GAIN})


def _accumulated(job: Job, folder: Path, plans: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how far errors of the plans add up over a chained run of the model, or of each operator where the model cannot be chained.

    {"status", "level": "model" or "operator", "steps", "worst", "detail"}
    """
    from .referee.model import Model, chained_operators

    job.bar.say("running the model chained, its outputs made its inputs")
    found = Model(job.forward, job.model, job.inputs, job.place).chained(job.extension)
    if isinstance(found, str):
        found = chained_operators(job.profile, folder, plans, job.place, found)
    return dataclasses.asdict(found)


def _outputs(job: Job, seen: dict[str, Any] | None) -> dict[str, Any]:
    """Return whether the model's outputs with the plans that serve are as right as eager's."""
    from .referee.model import Model

    if seen is not None:
        return told(seen["status"], seen["detail"])
    judge = Model(job.forward, job.model, job.inputs, job.place)
    return told(*judge.judge(job.extension))


def _whole_model(job: Job, switch: Callable[[bool], None], seen: dict[str, Any] | None) -> dict[str, Any]:
    """Return the paired time of the forward with and without plans: the study's own measurement if it is long enough."""
    if seen is not None and len(seen["on_ms"]) >= _BLOCKS:
        return _measure.from_pairs(seen["off_ms"], seen["on_ms"]).to_dict()
    job.bar.say("measuring the whole model, plans on and off in turn")
    return _measure.whole_model(
        job.forward,
        switch,
        blocks=_BLOCKS,
        seed=job.asked.seed,
        max_seconds=_MODEL_SECONDS,
        place=job.place,
    )


# ---- why eager runs ---------------------------------------------------------------------------------------------


def _why_not(job: Job, plans: list[dict[str, Any]]) -> str:
    if plans:
        return "winners wait for approval"
    searched = [c for c in job.cards if c["id"] not in job.open]
    return "no operator gained enough to be served" if searched else "no operator was worth a search"


def _reasons(
    before: dict[str, str], runs: list[dict[str, Any]], unserved: list[dict[str, Any]], refused: str
) -> dict[str, str]:
    """Say for each card that eager keeps why, and for a searched one how near it came. unserved: plans that do not serve."""
    reasons = dict(before)
    for plan in unserved:
        why = "withdrawn with the pack" if refused else "waits for approval"
        reasons.setdefault(
            plan["card"], f"winner {why}, at least {plan['evidence']['low']:.2f}x when confirmed"
        )
    for run in runs:
        reasons.setdefault(run["card"], _why_eager(run))
    return reasons


def _why_eager(run: dict[str, Any]) -> str:
    if len(run["nodes"]) > 1:
        measured = [c for c in run["confirmed"] if not c["accepted"]]
        if won := [c["low"] for c in run["confirmed"] if c["accepted"]]:
            why = next(iter(run["left_out"].values()), "the model is not surely faster with it")
            return f"winner left out, at least {max(won):.2f}x when confirmed: {why}"
        if measured:
            nearest: dict[str, Any] = max(measured, key=lambda c: c["ratio"])
            return f"best candidate when confirmed: {nearest['detail']}"
        # A search's own numbers are no result: the best of many is partly luck.
        return "no gain confirmed" if run["best"] < 1 else "no candidate was faster"
    if not run["why"] or run["why"].startswith("budget"):
        why = str(run["why"]).removeprefix("budget: ")
        return f"not reached within the budget ({why})" if why else "not reached within the budget"
    return str(run["why"]).splitlines()[0]
