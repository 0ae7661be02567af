"""What the kinds of faults share: a row of the result, the folders of trials, and the checks that every fault must pass."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import injected
import victim
from victim import Place, Tell, Victim

PATIENCE_S = 240.0  # of a whole study: a busy machine is no fault


class NotInjected(Exception):
    """A fault that this process may not inject here; the words say why. It counts for nothing."""


@dataclass
class Row:
    """contained: None if it was not injected."""

    name: str
    contained: bool | None
    recover_s: float | None
    saw: str
    took_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        recover = None if self.recover_s is None else round(max(0.0, self.recover_s), 3)
        return {
            "name": self.name,
            "contained": self.contained,
            "recover_s": recover,
            "saw": self.saw,
            "took_s": round(self.took_s, 1),
        }


class Trials:
    """Makes folders and searches for faults. Compiled candidates are kept for all of them."""

    def __init__(self, target: str, folder: Path, chance: random.Random) -> None:
        self.target, self.folder, self.chance = target, folder, chance
        self._numbers = itertools.count()

    def place(self) -> Place:
        return Place(self.folder / f"trial{next(self._numbers)}", self.target, self.folder / "cache")

    def goods(self, count: int, *, compiled: bool = False) -> list[dict[str, Any]]:
        """Return candidates that pass; with `compiled` ones that no trial has had before."""
        first = next(self._numbers) * 100 if compiled else 0
        return [injected.good(self.target, first + i, compiled=compiled) for i in range(count)]

    def start(self, candidates: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
        """Return what a study is started with so that it judges these candidates, whatever they gain.

        Without compute-sanitizer, which takes seconds of a trial for finalists that are no part of it. A search of templates has it.
        """
        always = {"min_gain": 0.0, "candidates": len(candidates), "sanitizer": ""}
        return {"candidates": candidates, "settings": always | settings}

    def search(self, place: Place, candidates: list[dict[str, Any]], *more: str, **settings: Any) -> Victim:
        """Start a search of these candidates in a process of its own; of templates, if there are none."""
        start = self.start(candidates, **settings) if candidates else {"settings": settings}
        return Victim(lambda tell: optimize(tell, place, *more), place, start)


def optimize(tell: Tell, place: Place, *more: str) -> int:
    """Be the user: a model, a search, and the model again, which must be what it was."""
    import torch

    import kernelforge

    scope: dict[str, Any] = {"__name__": "net"}
    exec(place.net.read_text(), scope)
    model, inputs = scope["make"](device="cuda" if place.target == "cuda" else "cpu")
    with torch.no_grad():
        before = model(*inputs).clone()
        tell(kind="called")
        code = victim.cli(place.optimize("--json", *more))
        tell(kind="returned")
        kernelforge.restore()
        same = bool(torch.equal(before, model(*inputs)))
    tell(kind="health", same=same, children=sorted(victim.descendants(os.getpid()).values()))
    return code


def troubles(v: Victim, shared_before: set[str], *, code: int = 0) -> list[str]:
    """Return what is wrong with a search that has ended: its exit code, its model, and what it left behind."""
    found = []
    if v.status != code:
        found.append(f"it ended with {v.status} (expected {code}): {v.said()[-300:].strip()}")
    health = v.all("health")
    if v.status is not None and v.status >= 0:
        if not health:
            found.append("it did not come to its end")
        elif not health[-1]["same"]:
            found.append("the model computes something else than before")
        elif health[-1]["children"]:
            found.append(f"processes are left: {health[-1]['children']}")
        if left := v.place.left():
            found.append(f"temporary files are left: {left}")
    if left := sorted(victim.shared_memory() - shared_before):
        found.append(f"shared memory is left: {left}")
    return found


def stored(place: Place) -> list[tuple[str, int, str]]:
    """Return the verdicts that the store has: (run, node, status). Read by Python's own SQLite, which only this process of ours may use."""
    if not place.store.exists():
        return []
    with contextlib.closing(sqlite3.connect(place.store, timeout=10)) as db:
        rows = db.execute("SELECT run, data FROM events WHERE kind = 'verdict' ORDER BY seq").fetchall()
    found = [(run, json.loads(data)) for run, data in rows]
    return [(run, data["node"], data["verdict"]["status"]) for run, data in found]


def resumes(trials: Trials, place: Place, candidates: list[dict[str, Any]], *more: str) -> list[str]:
    """Return what is wrong when the same call is made again: it must end well, keep what was stored, and judge nothing twice."""
    before, shared = stored(place), victim.shared_memory()
    v = trials.search(place, candidates, *more)
    try:
        v.wait(PATIENCE_S)
        wrong = [f"resumed: {t}" for t in troubles(v, shared)]
    finally:
        v.end()
    after = stored(place)
    if after[: len(before)] != before:
        wrong.append(
            f"resumed: {len(before)} verdicts were stored, and are not the first of the {len(after)} now"
        )
    if len({(run, node) for run, node, _ in after}) != len(after):
        wrong.append("resumed: a node was judged twice")
    if candidates and len(after) != len(candidates):
        wrong.append(f"resumed: {len(after)} verdicts (expected {len(candidates)})")
    return wrong


def ending(v: Victim, struck: float) -> float | None:
    """Return the seconds from the end of what was being measured when a fault struck to the return of the call."""
    back = v.all("returned")
    busy = [t["at"] for t in v.told if t["kind"] in ("done", "verdict") and t["at"] > struck]
    return back[-1]["at"] - max([struck, *busy]) if back else None


def one_error(v: Victim) -> list[str]:
    """Return what is wrong with the words in which a search ended: one error, and a hint."""
    said = v.said()
    wrong = []
    if said.count("\nerror: ") + said.startswith("error: ") != 1:
        wrong.append(f"it did not say one error: {said[-300:].strip()}")
    elif "\nhint: " not in said:
        wrong.append(f"its error has no hint: {said[-300:].strip()}")
    if traceback(said):
        wrong.append(f"it showed a traceback: {said[-300:].strip()}")
    return wrong


def traceback(said: str) -> bool:
    """Return whether a program showed a traceback of its own. Python itself tells of a Ctrl-C that came into a callback of its garbage collector."""
    return "Traceback" in re.sub(r"(?ms)^Exception ignored in.*?^KeyboardInterrupt:?\s*$\n?", "", said)


def words(v: Victim) -> str:
    """Return the error in which a search ended and its hint, without the folders of the trial."""
    said = v.said()
    if "error: " not in said:
        return ""
    first, *rest = said[said.rfind("error: ") :].splitlines()
    hint = next((line for line in rest[:1] if line.startswith("hint: ")), "")
    return "; ".join(filter(None, [first, hint])).replace(f"{v.place.folder}/", "")[:240]


def verdicts(v: Victim) -> list[dict[str, Any]]:
    """Return the verdicts in order: {at, status, detail}."""
    return [
        {**t["data"]["verdict"], "at": t["at"]} for t in v.all("verdict")
    ]  # when, not the verdict's own place


def next_run(v: Victim, after: float) -> float | None:
    """Return when the first run of a candidate that ended after a moment came back, or None."""
    return next((t["at"] for t in v.all("task", after) if t["task"] == "check" and t["compares"]), None)


def runs_before(v: Victim, moment: float, after: float) -> float | None:
    """Return when the last run began before a moment, or None."""
    times = [
        t["at"]
        for t in v.all("task", after)
        if t["task"] == "check" and t["case"] is not None and t["at"] <= moment
    ]
    return times[-1] if times else None
