"""Faults that a candidate brings: each is judged between two good candidates, with the gate `policy` off, in the study of a live process."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

import injected
import victim
from faults_row import PATIENCE_S, Row, Trials, next_run, runs_before, troubles, verdicts

ENDED_AT_THE_VERDICT = (
    "timeout",
    "rejected",
    "compile_error",
)  # a hang counts from the moment at which it is ended


def faults(target: str) -> dict[str, Callable[[Trials, str], Row]]:
    return {fault.name: inject for fault in injected.FAULTS[target]}


def inject(trials: Trials, name: str) -> Row:
    fault = next(f for f in injected.FAULTS[trials.target] if f.name == name)
    before, after = trials.goods(2)
    place, shared = trials.place(), victim.shared_memory()
    strays = victim.strays(place)
    v = trials.search(place, [before, injected.candidate(fault.source, fault.spec), after], off=["policy"])
    try:
        v.wait(PATIENCE_S)
        found = verdicts(v)
        if len(found) != 3:
            return Row(name, False, None, f"{len(found)} verdicts (expected 3): {v.said()[-300:].strip()}")
        first, bad, last = found
        unpacked = "were judged without the gate `policy`" in v.said()  # as it must be: no pack
        wrong = troubles(v, shared, code=5 if unpacked else 0)
        if escaped := victim.strays(place) - strays:
            wrong.append(f"{len(escaped)} processes escaped, and were killed by this bench")
            for pid, _ in escaped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
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
        return Row(name, not wrong, going and going - struck, "; ".join([saw, *wrong]))
    finally:
        v.end()
