"""Faults that a candidate brings: each is judged between two good candidates, with the gate `policy` off, in the study of a live process.

A study takes them one after the other: on a device it is ten seconds old before it judges anything.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import injected
import victim
from faults_row import PATIENCE_S, Row, Trials, next_run, runs_before, troubles, verdicts
from victim import Victim

ENDED_AT_THE_VERDICT = (
    "timeout",
    "rejected",
    "compile_error",
)  # a hang counts from the moment at which it is ended


def faults(target: str) -> dict[str, Callable[[Trials, str], Row]]:
    return {fault.name: inject for fault in injected.FAULTS[target]}


def inject(trials: Trials, name: str) -> Row:
    return inject_all(trials, [name])[0]


def inject_all(trials: Trials, names: Sequence[str]) -> list[Row]:
    """Return the rows of faults that come one after the other in one study, each between two good candidates."""
    known = {f.name: f for f in injected.FAULTS[trials.target]}
    faults = [known[n] for n in names]
    goods = trials.goods(len(faults) + 1)
    place, shared = trials.place(), victim.shared_memory()
    strays = victim.strays(place)
    bad_ones = [injected.candidate(f.source, f.spec) for f in faults]
    given = [c for pair in zip(goods, bad_ones, strict=False) for c in pair] + goods[-1:]
    v = trials.search(place, given, off=["policy"])
    try:
        v.wait(PATIENCE_S)
        found = verdicts(v)
        if len(found) != len(given):
            why = f"{len(found)} verdicts (expected {len(given)}): {v.said()[-300:].strip()}"
            return [Row(n, False, None, why) for n in names]
        unpacked = "were judged without the gate `policy`" in v.said()  # as it must be: no pack
        wrong = troubles(v, shared, code=5 if unpacked else 0)
        if escaped := victim.strays(place) - strays:
            wrong.append(f"{len(escaped)} processes escaped, and were killed by this bench")
            for pid, _ in escaped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return [_row(v, f, found[2 * i : 2 * i + 3], wrong) for i, f in enumerate(faults)]
    finally:
        v.end()


def _row(v: Victim, fault: injected.Injected, found: Sequence[dict[str, Any]], troubles: list[str]) -> Row:
    """Return the row of one fault. found: the verdicts before, of, and after it; troubles: of the whole search."""
    first, bad, last = found
    wrong = list(troubles)
    if bad["status"] not in fault.statuses:
        wrong.append(f"its verdict is {bad['status']} (expected {' or '.join(fault.statuses)})")
    wrong += [
        f"a good candidate ended with {g['status']}: {g['detail'][:200]}"
        for g in (first, last)
        if g["status"] != "ok"
    ]
    struck = bad["at"]
    if bad["status"] not in ENDED_AT_THE_VERDICT:
        struck = runs_before(v, bad["at"], first["at"]) or bad["at"]
    going = next_run(v, bad["at"])
    saw = f"{bad['status']}: {bad['detail'][:160]}"
    return Row(fault.name, not wrong, going and going - struck, "; ".join([saw, *wrong]))
