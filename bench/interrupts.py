"""Interrupts `kernelforge optimize` at random moments from the start of the interpreter to its last line: Ctrl-C, SIGTERM, SIGKILL.

    python bench/interrupts.py                                    30 moments of each signal; bench/results/interrupts-host.json
    python bench/interrupts.py --moments 4 --seed 7 --json --out build/interrupts.json

A call is a process of its own, as a user's is. Its phases are told from outside, by what it has loaded and stored: start (the interpreter),
import (torch, the model), profile, prepare, search, confirm, fresh, finish (the whole model, the pack), report. Phases and signals take turns, and the
moment within a phase is random. One study is interrupted again and again, so that each call resumes what the last one left; after a round through the
phases a last call comes to its end. Each time:

    the exit code is 130 for Ctrl-C, the signal's own else; a call that had printed its report may be done
    its words are one error with a hint that says how to go on, and no traceback (before the command runs Python ends in its own way)
    no process of it lives on, no temporary file and no shared memory is left (after SIGKILL: the next call removes them)
    the store is whole, and begins with all that it had; no node is there twice; a pack is whole or absent
    the last call of a round ends well, with every candidate judged once, and its pack serves

Half of the signals go to all processes of the call, as a terminal's do. `ended_s` is how long it took to end: after Ctrl-C with the measurement in flight.
Rows are saved one by one; the same call goes on with those of this commit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import resumed
import victim
from faults_row import PATIENCE_S, stored, traceback
from interrupts_call import CANDIDATES, POOL, Call
from victim import Place

ROOT = Path(__file__).resolve().parent.parent
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}
# A round: most calls of a user are interrupted while they search, most of what can go wrong lies in the start and at the end.
ROUND = ("start", "profile", "prepare", "search", "import", "search", "confirm", "fresh", "finish", "finish", "finish", "report")  # fmt: skip
USUAL_S = {
    "start": 0.1,
    "import": 1.5,
    "profile": 1.0,
    "prepare": 1.5,
    "search": 1.0,
    "confirm": 1.0,
    "fresh": 4.0,
    "finish": 2.0,
    "report": 0.2,
}  # until a call has shown it
COMPILE_S = 60.0
LATEST_S = 10.0  # to end after SIGTERM, on a machine that is busy


class Sweep:
    """Interrupts one study after the other; rows are what was seen."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.places = 0
        self.lengths = dict(USUAL_S)

    def place(self) -> Place:
        self.places += 1
        made = Place(self.folder / f"study{self.places}", "host", self.folder / "cache")
        made.net.write_text(POOL)
        return made

    def learn(self, call: Call) -> None:
        """Keep how long the phases took that it came through."""
        begun = sorted(call.phases.items(), key=lambda p: p[1])
        self.lengths |= {p: begun[i + 1][1] - at for i, (p, at) in enumerate(begun[:-1])}

    def strike(self, place: Place, phase: str, number: signal.Signals, whole: bool) -> dict[str, Any] | None:
        """Interrupt one call; return the row, None if it was quicker than the moment. whole: the signal goes to all its processes."""
        before, shared = stored(place), victim.shared_memory()
        call = Call(place)
        if call.reach(phase):
            end = time.monotonic() + self.chance.uniform(0, self.lengths[phase])
            while call.process.poll() is None and time.monotonic() < end:
                time.sleep(min(0.002, max(0.0, end - time.monotonic())))
        if not call.look():
            self.learn(call)
            self.lengths[phase] *= 0.7
            return None
        at, found = time.monotonic() - call.began, list(call.phases)[-1]
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole else os.kill)(call.pid, number)
        ended = call.wait(PATIENCE_S)
        self.learn(call)
        wrong = self.wrong(call, number, ended)
        if left := sorted(victim.shared_memory() - shared):
            wrong.append(f"shared memory is left: {left}")
        wrong += whole_store(place, before)
        return {
            "signal": number.name,
            "phase": found,
            "at_s": round(at, 2),
            "to_all": whole,
            "status": call.status,
            "ended_s": None if ended is None else round(ended, 2),
            "stored": len(stored(place)),
            "wrong": wrong,
        }

    def wrong(self, call: Call, number: signal.Signals, ended: float | None) -> list[str]:
        """Return what is not as it has to be with a call that was interrupted."""
        found = []
        if ended is None:
            return [f"it did not end within {PATIENCE_S:g} s"]
        # After SIGKILL nobody is left to end what a compiler has started: that ends with its compile, which is bounded.
        until = time.monotonic() + (COMPILE_S if number == signal.SIGKILL else LATEST_S)
        while (family := call.family()) and time.monotonic() < until:
            time.sleep(0.02)
        if family:
            found.append(f"processes live on: {sorted(family.values())}")
            call.kill()
        if number == signal.SIGKILL:
            return found + ([] if call.status in (-9, 0) else [f"it ended with {call.status}"])
        said, printed, early = call.said(), call.printed(), self.early(call)
        if left := call.place.left():
            found.append(f"temporary files are left: {left}")
        if traceback(said) and not early:
            found.append(f"it showed a traceback: {said[-600:]}")
        complete = printed is not None and "rows" in printed
        if complete and call.status in (0, -number):
            return found  # it had done its work, and was on its way out
        if call.status == 0:
            found.append(f"it ended with 0 and without its report: {said[-300:]}")
        elif number == signal.SIGINT:
            if call.status == 130:
                found += words(said)
                if (printed or {}).get("error", {}).get("code") != 130:
                    found.append(f"--json printed no error: {call.out.read_text()[:200]}")
            elif not early or (call.status != -signal.SIGINT and "KeyboardInterrupt" not in said):
                found.append(f"it ended with {call.status} (expected 130): {said[-600:]}")
        else:
            if call.status != -signal.SIGTERM:
                found.append(f"it ended with {call.status} (expected {-signal.SIGTERM}): {said[-600:]}")
            elif not early and not ("terminated" in said and goes_on(said)):
                found.append(f"it did not say how to go on: {said[-300:]}")
            if ended > LATEST_S:
                found.append(f"it took {ended:.1f} s to end")
        return found

    def early(self, call: Call) -> bool:
        """Whether the call had not come to its command yet: Python itself was starting, and nothing was touched."""
        return "import" not in call.phases and call.printed() is None


def goes_on(said: str) -> bool:
    return any(w in said for w in ("resumes", "goes on", "again"))


def words(said: str) -> list[str]:
    """Return what is wrong with the words after Ctrl-C: one error, and a hint that says how to go on."""
    errors = said.count("\nerror: ") + said.startswith("error: ")
    if errors != 1 or "\nhint: " not in said or not goes_on(said):
        return [f"it did not say one error and how to go on: {said[-300:]}"]
    return []


def whole_store(place: Place, before: list[tuple[str, int, str]]) -> list[str]:
    """Return what is wrong with a study's files: the store, and the pack if there is one."""
    wrong = []
    after = stored(place)
    if after[: len(before)] != before:
        wrong.append(f"{before} was stored, and is not the beginning of {after}")
    if len({(run, node) for run, node, _ in after}) != len(after):
        wrong.append(f"a node was judged twice: {after}")
    if place.store.exists():
        with contextlib.closing(sqlite3.connect(place.store, timeout=10)) as db:
            if (found := db.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                wrong.append(f"the store is damaged: {found}")
    packs = place.home / "packs"
    for folder in sorted(packs.iterdir()) if packs.exists() else []:
        if folder.name.startswith("."):
            continue  # one that was being written; the round's end must not have it
        try:
            serve(folder)
        except Exception as e:
            wrong.append(f"the pack `{folder.name}` does not open: {e}")
    return wrong


def serve(folder: Path) -> int:
    """Load and serve a pack, hashes and code checked, and put back what was; return the number of plans."""
    import kernelforge

    try:
        return len(kernelforge.apply(str(folder)))
    finally:
        kernelforge.restore()


def ends_well(place: Place) -> list[str]:
    """Return what is wrong with the last call of a round."""
    before, call = stored(place), Call(place)
    if call.wait(PATIENCE_S) is None or call.status != 0:
        return [f"the last call ended with {call.status}: {call.said()[-500:]}"]
    wrong = [f"the last call: {w}" for w in whole_store(place, before)]
    report, after = call.printed() or {}, stored(place)
    if len(after) != CANDIDATES:
        wrong.append(f"{len(after)} nodes are stored (expected {CANDIDATES})")
    if left := place.left():
        wrong.append(f"the last call left temporary files: {left}")
    for folder in (place.home / "packs", place.home / "cache/trial"):
        hidden = [p.name for p in folder.iterdir()] if folder.exists() else []
        if half := [n for n in hidden if n.startswith(".") or folder.name == "trial"]:
            wrong.append(f"halves of packs are left: {half}")
    served = bool(report.get("pack"))
    if served and not serve(Path(report["pack"])):
        wrong.append("its pack serves nothing")
    return wrong


def sweep(sweeping: Sweep, result: dict[str, Any], args: argparse.Namespace) -> None:
    """Interrupt until every signal has its moments or the time is over. Signals take turns within a study."""
    until = time.monotonic() + args.budget_s
    place, turn, rounds = sweeping.place(), 0, len(result["rows"]) // len(ROUND)
    total = args.moments * len(args.signals)
    while time.monotonic() < until:
        left = {n: args.moments - sum(r["signal"] == n for r in result["rows"]) for n in args.signals}
        turns = [args.signals[(turn + rounds + i) % len(args.signals)] for i in range(len(args.signals))]
        name = next((n for n in turns if left[n] > 0), None)  # another one in this phase in each round
        if name is None:
            break
        to_all = len(result["rows"]) // len(args.signals) % 2 == 1
        row = sweeping.strike(place, phase_of(turn, total, args.seed), SIGNALS[name], to_all)
        if row is None:  # the study is done: the phase comes again in another one
            place = sweeping.place()
            continue
        turn += 1
        result["rows"].append(row)
        if turn == len(ROUND):
            row["wrong"] += ends_well(place)
            place, turn, rounds = sweeping.place(), 0, rounds + 1
        save(result, args)
        if not args.json:
            print(json.dumps(row), flush=True)
    else:
        result["left"] = True
    if turn:
        result["rows"][-1]["wrong"] += ends_well(place)


def phase_of(turn: int, total: int, seed: int) -> str:
    """Return the phase of a call; a few calls are spread over the round."""
    if total >= len(ROUND):
        return ROUND[turn]
    step = len(ROUND) // total
    return ROUND[turn * step + seed % step]


def save(result: dict[str, Any], args: argparse.Namespace) -> None:
    rows = result["rows"]
    result["moments"] = {n: sum(r["signal"] == n for r in rows) for n in SIGNALS}
    result["wrong"] = [f"{r['signal']} in {r['phase']}: {w}" for r in rows for w in r["wrong"]]
    for n in SIGNALS:
        times = [r["ended_s"] for r in rows if r["signal"] == n and r.get("ended_s") is not None]
        result[f"{n.lower()}_ended_s_max"] = max(times, default=None)
    resumed.write(result, args.out)


def begin(args: argparse.Namespace) -> dict[str, Any]:
    """Return the result of an earlier run of this commit and seed, or an empty one."""
    command = f"python bench/interrupts.py --moments {args.moments} --seed {args.seed}"
    return resumed.begin(args.out, command, args.commit, {"seed": args.seed}, {"rows": []})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moments", type=int, default=30, help="of each signal")
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--budget-s", type=float, default=7200.0, help="no call is interrupted after this")
    parser.add_argument(
        "--out",
        type=Path,
        help="result file, saved after each row; default: bench/results/interrupts-host.json",
    )
    parser.add_argument("--commit", help="what the result says of the code; default: git's HEAD")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args()
    args.out = args.out or ROOT / "bench/results/interrupts-host.json"
    victim.preload()
    result = {"env": victim.machine("host"), **begin(args)}
    with tempfile.TemporaryDirectory(prefix="kernelforge-interrupts-") as folder:
        sweep(Sweep(Path(folder), random.Random(args.seed + len(result["rows"]))), result, args)
    save(result, args)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        print(f"{result['moments']}: {len(result['wrong'])} wrong")
    return 4 if result["wrong"] else 6 if "left" in result else 0


if __name__ == "__main__":
    sys.exit(main())
