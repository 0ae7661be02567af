"""Kills live searches by SIGKILL at random moments: no stored node is lost, none is judged twice, no process lives on.

    python bench/kills.py --points 50 --json

Each study is killed again and again, at a moment between its call and its usual end, and resumed by the same call until it is done; then the next one
begins. After each kill every verdict that the process had told of must be stored, and what was stored before must be there unchanged. (With recorded
costs the same is shown bit for bit, at every event and at random points: go/forge/prefix_test.go, resume_test.go.)
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

import victim
from faults_row import PATIENCE_S, Trials, stored, troubles
from victim import Place

CANDIDATES = 8


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--points", type=int, default=50, help="kills")
    parser.add_argument("--seed", type=int, default=0, help="of their moments")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args()
    victim.preload()
    with tempfile.TemporaryDirectory(prefix="kernelforge-kills-") as folder:
        result = kills(Trials(args.target, Path(folder), random.Random(args.seed)), args.points)
    result |= {"target": args.target, "seed": args.seed}
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"{result['points']} kills of {result['studies']} studies with {result['stored']} nodes: {len(result['wrong'])} wrong"
        )
        print("\n".join(result["wrong"]))
    return 4 if result["wrong"] else 0


def kills(trials: Trials, points: int) -> dict[str, Any]:
    """Kill searches this often; return what was seen."""
    wrong, left, nodes, studies, longest = list[str](), points, 0, 0, 0.0
    length = undisturbed(trials)
    while left > 0 and not wrong:
        place, candidates = trials.place(), trials.goods(CANDIDATES)
        studies += 1
        killed = 0
        while left > 0 and killed < CANDIDATES:
            before = stored(place)
            found, gone = once(trials, place, candidates, trials.chance.uniform(0, length))
            if found is None:
                break  # it came to its end first
            left, killed, longest = left - 1, killed + 1, max(longest, gone)
            after = stored(place)
            if after[: len(before)] != before:
                found.append(f"{before} was stored, and is not the beginning of {after}")
            wrong += [f"study {studies}, kill {killed}: {w}" for w in found]
        v = trials.search(place, candidates)
        try:
            v.wait(PATIENCE_S)
            wrong += [f"study {studies}, resumed: {t}" for t in troubles(v, victim.shared_memory())]
        finally:
            v.end()
        after = stored(place)
        nodes += len(after)
        if len({(run, node) for run, node, _ in after}) != len(after) or len(after) != CANDIDATES:
            wrong.append(f"study {studies}: {after} is stored (expected {CANDIDATES} nodes, each once)")
        if twice := judged_twice(place):
            wrong.append(f"study {studies}: judged twice: {twice}")
        print(f"{points - left} kills, {studies} studies, {nodes} nodes, {len(wrong)} wrong", file=sys.stderr)
    return {
        "points": points - left,
        "studies": studies,
        "stored": nodes,
        "gone_s_max": round(longest, 3),
        "wrong": wrong,
    }


def undisturbed(trials: Trials) -> float:
    """Return how long a search takes from call to return, compiled candidates at hand."""
    took = 0.0
    for _ in range(2):
        v = trials.search(trials.place(), trials.goods(CANDIDATES))
        try:
            v.wait(PATIENCE_S)
            if wrong := troubles(v, victim.shared_memory()):
                raise RuntimeError(f"an undisturbed search failed: {wrong}")
            took = v.all("returned")[-1]["at"] - v.all("called")[-1]["at"]
        finally:
            v.end()
    return took


def once(
    trials: Trials, place: Place, candidates: list[dict[str, Any]], moment: float
) -> tuple[list[str] | None, float]:
    """Kill one search; return what was wrong, None if it ended before, and how long its processes outlived it."""
    v = trials.search(place, candidates)
    try:
        v.until(lambda: bool(v.all("called")), PATIENCE_S)
        if v.until(lambda: bool(v.all("returned")), moment):
            v.wait(PATIENCE_S)
            return None, 0.0
        family = victim.descendants(v.pid)
        os.kill(v.pid, signal.SIGKILL)
        struck = time.monotonic()
        while (v.alive() or victim.living(family)) and time.monotonic() - struck < 10:
            time.sleep(0.002)
        gone = time.monotonic() - struck
        v.wait(1)
        found = [f"processes live on: {sorted(left.values())}"] if (left := victim.living(family)) else []
        told = {(t["data"]["node"], t["data"]["verdict"]["status"]) for t in v.all("verdict")}
        if lost := told - {(node, status) for _, node, status in stored(place)}:
            found.append(f"verdicts were told and are not stored: {sorted(lost)}")
        return found, gone
    finally:
        v.end()


def judged_twice(place: Place) -> list[str]:
    """Return the selections that have more than one verdict."""
    with contextlib.closing(sqlite3.connect(place.store, timeout=10)) as db:
        rows = db.execute("SELECT data FROM events WHERE kind = 'verdict'").fetchall()
    seqs = [json.loads(data)["seq"] for (data,) in rows]
    return sorted({f"selection {s}" for s in seqs if seqs.count(s) > 1})


if __name__ == "__main__":
    sys.exit(main())
