"""Faults of processes: workers and compilers that somebody kills or stops, and the user's process that dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import victim
from faults_row import PATIENCE_S, Row, Trials, next_run, resumes, stored, troubles, verdicts
from victim import Victim

SERVING, COMPILING = "serve", "compile"
COMPILERS = {"cc1plus", "clang"}


def faults(target: str) -> dict[str, Callable[[Trials, str], Row]]:
    return {
        "worker_killed": lambda trials, name: hurt(trials, name, SERVING, signal.SIGKILL),
        "worker_terminated": lambda trials, name: hurt(trials, name, SERVING, signal.SIGTERM),
        "worker_stopped": lambda trials, name: hurt(trials, name, SERVING, signal.SIGSTOP),
        "compiler_killed": lambda trials, name: hurt(trials, name, COMPILING, signal.SIGKILL),
        "compiler_stopped": lambda trials, name: hurt(trials, name, COMPILING, signal.SIGSTOP),
        "parent_killed": parent_killed,
        "parent_killed_compiling": lambda trials, name: parent_killed(trials, name, compiled=True),
    }


def strike(
    v: Victim, does: str, number: signal.Signals, wait_s: float
) -> tuple[tuple[int, int], float] | None:
    """Send a signal to a process below a search that does something, some time after it was first seen; return which, and when."""
    end = time.monotonic() + PATIENCE_S
    while v.alive() and time.monotonic() < end:
        for key in victim.descendants(v.pid):
            try:
                words = Path(f"/proc/{key[0]}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 1 and words[1].decode(errors="replace").startswith(does):
                time.sleep(wait_s)
                if key in victim.living({key: ""}):
                    os.kill(key[0], number)
                    return key, time.monotonic()
        v.listen(0.001)
    return None


def restarted(v: Victim, after: float) -> float | None:
    """Return when the first run of a candidate that was begun after a moment came back, or None."""
    begun = (
        t["at"]
        for t in v.all("task", after)
        if t["task"] == "check" and t["case"] is not None and not t["compares"]
    )
    first = next(begun, None)
    return first and next_run(v, first)


def hurt(trials: Trials, name: str, does: str, number: signal.Signals) -> Row:
    """Hurt one process in the middle of a study of good candidates: all of them must pass."""
    candidates = trials.goods(
        6 if does == COMPILING else 24, compiled=does == COMPILING
    )  # more than a fast machine judges before it is struck
    shared = victim.shared_memory()
    v = trials.search(trials.place(), candidates)
    try:
        v.until(lambda: bool(v.all("verdict")), PATIENCE_S)
        hit = strike(v, does, number, trials.chance.uniform(0, 0.05))
        if hit is None:
            return Row(name, False, None, f"there was no process to hurt: {v.said()[-300:].strip()}")
        key, struck = hit
        v.until(lambda: not victim.living({key: ""}), PATIENCE_S)
        ended = time.monotonic() if number == signal.SIGSTOP else struck
        v.wait(PATIENCE_S)
        found = verdicts(v)
        wrong = troubles(v, shared)
        bad = [f for f in found if f["status"] != "ok"]
        if len(found) != len(candidates) or bad:
            wrong.append(
                f"{len(found)} verdicts (expected {len(candidates)}), not ok: {[(b['status'], b['detail'][:160]) for b in bad]}"
            )
        going = restarted(v, struck)
        saw = f"{len(found) - len(bad)} of {len(candidates)} good candidates passed"
        return Row(name, not wrong, going and going - ended, "; ".join([saw, *wrong]))
    finally:
        v.end()


def parent_killed(trials: Trials, name: str, *, compiled: bool = False) -> Row:
    """Kill the user's process: all that it started ends, and the next search removes what it left and goes on. compiled: while a compiler is at work,
    which is below a process that is below the user's."""
    candidates = trials.goods(6 if compiled else 24, compiled=compiled)
    place, shared = trials.place(), victim.shared_memory()
    v = trials.search(place, candidates)
    try:
        v.until(lambda: bool(v.all("verdict")), PATIENCE_S)
        wrong = []
        if compiled and trials.target == "host":
            family: dict[tuple[int, int], str] = {}
            while v.alive() and not COMPILERS & set(family.values()):
                v.listen(0.001)
                family = victim.descendants(v.pid)
            if not family:
                wrong.append("no compiler was seen at work")
        else:
            v.until(lambda: False, trials.chance.uniform(0, 0.5))
            family = victim.descendants(v.pid)
        os.kill(v.pid, signal.SIGKILL)
        struck = time.monotonic()
        while (v.alive() or victim.living(family)) and time.monotonic() - struck < 10:
            time.sleep(0.005)
        gone = time.monotonic() - struck
        if orphans := victim.living(family):
            wrong.append(f"processes live on: {sorted(orphans.values())}")
        v.wait(1)
        told, kept = len(v.all("verdict")), len(stored(place))
        if kept < told:
            wrong.append(f"{kept} verdicts are stored (it had told of {told})")
        wrong += troubles(v, shared, code=-9) + resumes(trials, place, candidates)
        if left := place.left():
            wrong.append(f"the next search left temporary files: {left}")
        saw = f"{len(family)} processes ended with it, {kept} verdicts were stored"
        return Row(name, not wrong, gone, "; ".join([saw, *wrong]))
    finally:
        v.end()
