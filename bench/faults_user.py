"""What users do to a search: Ctrl-C and SIGTERM at any moment, two searches at once; and a clock that jumps."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import victim
from faults_row import (
    PATIENCE_S,
    Row,
    Trials,
    ending,
    next_run,
    one_error,
    optimize,
    resumes,
    stored,
    troubles,
    verdicts,
    words,
)
from victim import Tell, Victim

LATEST_S = 10.0  # to end, on a machine that is busy; what it took is told, and held against the budget of 2 s (bench/trust.py)
MOMENTS = 5  # of each signal; bench/interrupts.py has those of whole calls
_TEMPLATES = ("--candidates", "3")


def faults(target: str) -> dict[str, Callable[[Trials, str], Row]]:
    moments = [
        (f"{n.name.lower()}_{i:02}", n)
        for n in (signal.SIGINT, signal.SIGTERM)
        for i in range(1, MOMENTS + 1)
    ]
    others = {"one_study_twice": one_study_twice, "two_studies": two_studies, "clock_jumps": clock_jumps}
    return {**others, **{name: _at_a_moment(number) for name, number in moments}}


def _at_a_moment(number: signal.Signals) -> Callable[[Trials, str], Row]:
    return lambda trials, name: interrupted(trials, name, number)


def interrupted(trials: Trials, name: str, number: signal.Signals) -> Row:
    """Send a signal while the call runs, at a moment that has nothing to do with its steps. Every second search is one of templates, so that winners
    are confirmed and the whole model is measured in it."""
    candidates = trials.goods(4) if int(name[-2:]) % 2 else []
    more = () if candidates else _TEMPLATES
    length = usual(trials, bool(candidates))
    for _ in range(10):
        moment = trials.chance.uniform(0, length)
        if row := _strike(trials, name, number, moment, candidates, more):
            return row
        length *= 0.9
    return Row(name, False, None, "ten searches ended before their moment")


def _strike(
    trials: Trials,
    name: str,
    number: signal.Signals,
    moment: float,
    candidates: list[Any],
    more: tuple[str, ...],
) -> Row | None:
    """Return the row, or None if the search was quicker than the moment."""
    place, shared = trials.place(), victim.shared_memory()
    v = trials.search(place, candidates, *more)
    try:
        v.until(lambda: bool(v.all("called")), PATIENCE_S)
        if v.until(lambda: bool(v.all("returned")), moment):
            return None
        struck = time.monotonic()
        os.kill(v.pid, number)
        v.wait(PATIENCE_S)
        return _interrupted(trials, name, v, number, struck, moment, shared, candidates, more)
    finally:
        v.end()


def _interrupted(
    trials: Trials,
    name: str,
    v: Victim,
    number: signal.Signals,
    struck: float,
    moment: float,
    shared: set[str],
    candidates: list[Any],
    more: tuple[str, ...],
) -> Row:
    if number == signal.SIGTERM:
        wrong = troubles(v, shared, code=-signal.SIGTERM)
        if left := v.place.left():
            wrong.append(f"temporary files are left: {left}")
        busy = [t["at"] for t in v.told if t["kind"] in ("done", "verdict") and t["at"] > struck]
        took: float | None = v.ended - max([struck, *busy])
    else:
        wrong = troubles(v, shared, code=130) + one_error(v)
        took = ending(v, struck)
        if "hint:" in v.said() and not any(w in v.said() for w in ("resumes", "goes on", "again")):
            wrong.append("it does not say how to go on")
    if took is not None and took > LATEST_S:
        wrong.append(f"it took {took:.1f} s to end after the measurement in flight")
    told, kept = len(v.all("verdict")), len(stored(v.place))
    if kept < told:
        wrong.append(f"{kept} verdicts are stored (it had told of {told})")
    wrong += resumes(trials, v.place, candidates, *more)
    saw = f"after {moment:.2f} s, with {kept} verdicts stored: {words(v) or v.status}"
    return Row(name, not wrong, took, "; ".join([saw, *wrong]))


def usual(trials: Trials, given: bool) -> float:
    """Return how long an undisturbed search takes from call to return."""
    known = trials.__dict__.setdefault("usual", {})
    if given not in known:
        candidates = trials.goods(4) if given else []
        for _ in range(2):  # the first one compiles
            v = trials.search(trials.place(), candidates, *(() if given else _TEMPLATES))
            try:
                v.wait(PATIENCE_S)
                if wrong := troubles(v, victim.shared_memory()):
                    raise RuntimeError(f"an undisturbed search failed: {wrong}")
                known[given] = v.all("returned")[-1]["at"] - v.all("called")[-1]["at"]
            finally:
                v.end()
    return float(known[given])


def one_study_twice(trials: Trials, name: str) -> Row:
    """A second search of a study is refused with the first one's number, and disturbs it in nothing."""
    candidates = trials.goods(40)  # so many that the second search comes while the first one runs
    place, shared = trials.place(), victim.shared_memory()
    first = trials.search(place, candidates)
    try:
        first.until(lambda: bool(first.all("verdict")), PATIENCE_S)
        other = trials.place()
        other.home.rename(other.folder / "unused")
        other.home.symlink_to(place.home)
        second = trials.search(other, candidates)
        try:
            second.wait(PATIENCE_S)
            refused = second.ended
            wrong = troubles(second, shared, code=7) + one_error(second)
            if f"process {first.pid} runs it" not in second.said():
                wrong.append("the refusal does not name the process")
            said = words(second)
        finally:
            second.end()
        first.wait(PATIENCE_S)
        wrong += troubles(first, shared)
        if [s for _, _, s in stored(place)] != ["ok"] * len(candidates):
            wrong.append(f"the first search stored {stored(place)}")
        going = next_run(first, refused)
        return Row(name, not wrong, going and going - refused, "; ".join([said, *wrong]))
    finally:
        first.end()


def two_studies(trials: Trials, name: str) -> Row:
    """Two searches side by side are both right."""
    candidates, shared = trials.goods(4), victim.shared_memory()
    both = [trials.search(trials.place(), candidates) for _ in range(2)]
    try:
        wrong = []
        for v in both:
            v.wait(PATIENCE_S)
        for v in both:
            wrong += troubles(v, shared)
            if bad := [b for b in verdicts(v) if b["status"] != "ok"]:
                wrong.append(f"a good candidate ended with {bad[0]['status']}: {bad[0]['detail'][:160]}")
        return Row(name, not wrong, None, "; ".join(["both ended well" if not wrong else "", *wrong]))
    finally:
        for v in both:
            v.end()


def clock_jumps(trials: Trials, name: str) -> Row:
    """The wall clock jumps by ten days, back and forth, all the time. (What Go reads is monotonic; its tests jump too.)"""
    candidates, place, shared = trials.goods(3), trials.place(), victim.shared_memory()

    def work(tell: Tell) -> int:
        real, looks = time.time, [0]

        def jumping() -> float:
            looks[0] += 1
            return real() + (864_000.0 if looks[0] % 2 else -864_000.0)

        time.time = jumping
        return optimize(tell, place)

    v = Victim(work, place, trials.start(candidates))
    try:
        v.wait(PATIENCE_S)
        wrong = troubles(v, shared)
        found = [b["status"] for b in verdicts(v)]
        if found != ["ok"] * len(candidates):
            wrong.append(f"verdicts {found}")
        return Row(name, not wrong, None, "; ".join([f"{len(found)} good candidates passed", *wrong]))
    finally:
        v.end()
