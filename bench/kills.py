"""Kills searches by SIGKILL at random moments: no stored node is lost, none is judged twice, no process lives on.

    python bench/kills.py                                   50 points of both kinds; bench/results/kills-host.json
    python bench/kills.py --points 8 --kinds live --json --out build/kills.json

Two kinds of points. `replay`: a study with recorded costs is killed between any two of its steps, and must come to the very tree of one that was not, bit
for bit (go/forge/resume_test.go). `live`: a search that compiles and runs candidates is killed at a moment between its call and its usual end, and resumed
by the same call; each study is killed again and again until it is done, then the next one begins. After each kill

    every verdict that the process had told of is stored, and what was stored before is there unchanged
    the store is whole, no process of it lives on
    the next call tells of no node that was stored, and judges no candidate that had its verdict

Kills of whole calls, from the interpreter's start to the report, are bench/interrupts.py's. Points are saved one by one; the same call goes on with those
of this commit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import resumed
import victim
from faults_row import PATIENCE_S, Trials, stored, troubles
from victim import Place

ROOT = Path(__file__).resolve().parent.parent
CANDIDATES = 8
REPLAY = "TestSameSeedGivesTheSameTreeAfterAKillAtAnyPoint"
REPLAY_S = 1200.0


def replay(points: int, seed: int) -> dict[str, Any]:
    """Kill a study with recorded costs this often; return {"points", "early", "wrong"}; early: killed before there was a store."""
    go = subprocess.run([str(ROOT / "tools/find-go"), sys.executable], capture_output=True, text=True)
    program = go.stdout.strip() or "go"
    command = [program, "test", "./go/forge", "-count=1", "-v", "-run", f"^{REPLAY}$"]
    variables = {**os.environ, "KF_POINTS": str(points), "KF_SEED": str(seed)}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=REPLAY_S, check=False
    )
    told = re.search(r"(\d+) points, seed (\d+), (\d+) of them before", done.stdout)
    if done.returncode != 0 or told is None or int(told[1]) != points:
        return {"points": 0, "early": 0, "wrong": [(done.stdout + done.stderr)[-1500:]]}
    return {"points": int(told[1]), "early": int(told[3]), "wrong": []}


class Study:
    """One study that is killed again and again."""

    def __init__(self, trials: Trials, number: int) -> None:
        self.trials, self.number = trials, number
        self.place, self.candidates = trials.place(), trials.goods(CANDIDATES)
        self.kills = 0
        self.done = False

    def kill(self, moment: float) -> dict[str, Any] | None:
        """Call it and kill it at a moment; return the row, None if it came to its end before."""
        before = stored(self.place)
        v = self.trials.search(self.place, self.candidates)
        try:
            v.until(lambda: bool(v.all("called")), PATIENCE_S)
            if v.until(lambda: bool(v.all("returned")), moment):
                v.wait(PATIENCE_S)
                self.done = True
                return None
            family = victim.descendants(v.pid)
            os.kill(v.pid, signal.SIGKILL)
            struck = time.monotonic()
            while (v.alive() or victim.living(family)) and time.monotonic() - struck < 10:
                time.sleep(0.002)
            gone = time.monotonic() - struck
            v.wait(1)
            self.kills += 1
            wrong = [f"processes live on: {sorted(left.values())}"] if (left := victim.living(family)) else []
            after, told = stored(self.place), told_of(v)
            if lost := told - {(node, status) for _, node, status in after}:
                wrong.append(f"verdicts were told and are not stored: {sorted(lost)}")
            if again := told & {(node, status) for _, node, status in before}:
                wrong.append(f"nodes were judged that were stored: {sorted(again)}")
            if after[: len(before)] != before:
                wrong.append(f"{before} was stored, and is not the beginning of {after}")
            wrong += damaged(self.place)
            return {
                "study": self.number,
                "moment_s": round(moment, 3),
                "before": len(before),
                "stored": len(after),
                "gone_s": round(gone, 3),
                "wrong": wrong,
            }
        finally:
            v.end()

    def finish(self) -> list[str]:
        """Let it come to its end; return what is wrong with it."""
        before = stored(self.place)
        v = self.trials.search(self.place, self.candidates)
        try:
            v.wait(PATIENCE_S)
            wrong = [f"resumed: {t}" for t in troubles(v, victim.shared_memory())]
            if again := told_of(v) & {(node, status) for _, node, status in before}:
                wrong.append(f"resumed: nodes were judged that were stored: {sorted(again)}")
        finally:
            v.end()
        after = stored(self.place)
        if after[: len(before)] != before:
            wrong.append(f"resumed: {before} was stored, and is not the beginning of {after}")
        if len({(run, node) for run, node, _ in after}) != len(after) or len(after) != CANDIDATES:
            wrong.append(f"{after} is stored (expected {CANDIDATES} nodes, each once)")
        if bad := [s for _, _, s in after if s != "ok"]:
            wrong.append(f"good candidates ended with {bad}")
        if twice := judged_twice(self.place):
            wrong.append(f"judged twice: {twice}")
        return [f"study {self.number}: {w}" for w in wrong + damaged(self.place)]


def told_of(v: victim.Victim) -> set[tuple[int, str]]:
    return {(t["data"]["node"], t["data"]["verdict"]["status"]) for t in v.all("verdict")}


def damaged(place: Place) -> list[str]:
    if not place.store.exists():
        return []
    with contextlib.closing(sqlite3.connect(place.store, timeout=10)) as db:
        found = db.execute("PRAGMA integrity_check").fetchone()[0]
    return [] if found == "ok" else [f"the store is damaged: {found}"]


def judged_twice(place: Place) -> list[str]:
    """Return the selections that have more than one verdict, and the candidates that have."""
    with contextlib.closing(sqlite3.connect(place.store, timeout=10)) as db:
        rows = db.execute(
            "SELECT run, kind, data FROM events WHERE kind IN ('proposal', 'verdict')"
        ).fetchall()
    events = [(run, kind, json.loads(data)) for run, kind, data in rows]
    selections = [(run, data["seq"]) for run, kind, data in events if kind == "verdict"]
    proposed = {
        (run, data["seq"]): data["candidate"]["id"]
        for run, kind, data in events
        if kind == "proposal" and data.get("candidate")
    }
    candidates = [(run, proposed[run, seq]) for run, seq in set(selections) if (run, seq) in proposed]
    return [
        *(f"selection {s}" for s in sorted(set(selections)) if selections.count(s) > 1),
        *(f"candidate {c}" for c in sorted(set(candidates)) if candidates.count(c) > 1),
    ]


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


def live(trials: Trials, result: dict[str, Any], args: argparse.Namespace, until: float) -> None:
    """Kill live searches until there are enough points or the time is over."""
    length = undisturbed(trials)
    result["undisturbed_s"] = round(length, 2)
    while len(result["live"]) < args.points:
        study = Study(trials, result["studies"] + 1)
        while len(result["live"]) < args.points and not study.done and study.kills < CANDIDATES:
            if time.monotonic() > until:
                result["left"] = True
                break
            row = study.kill(trials.chance.uniform(0, length))
            if row is not None:
                result["live"].append(row)
                save(result, args)
        result["studies"] += 1
        result["ends"] += study.finish()
        result["nodes"] += len(stored(study.place))
        save(result, args)
        if not args.json:
            print(f"{len(result['live'])} kills, {result['nodes']} nodes, {len(result['wrong'])} wrong")
        if "left" in result:
            return


def begin(args: argparse.Namespace) -> dict[str, Any]:
    """Return the result of an earlier run of this commit, target and seed, or an empty one."""
    command = f"python bench/kills.py --target {args.target} --points {args.points} --seed {args.seed}"
    empty = {"replay": None, "live": [], "studies": 0, "nodes": 0, "ends": []}
    return resumed.begin(args.out, command, args.commit, {"target": args.target, "seed": args.seed}, empty)


def save(result: dict[str, Any], args: argparse.Namespace) -> None:
    rows = result["live"]
    told = [f"study {r['study']}, after {r['moment_s']} s: {w}" for r in rows for w in r["wrong"]]
    result["wrong"] = [*((result["replay"] or {}).get("wrong", [])), *told, *result["ends"]]
    result["points"] = {"replay": (result["replay"] or {}).get("points", 0), "live": len(rows)}
    result["gone_s_max"] = max((r["gone_s"] for r in rows), default=None)
    resumed.write(result, args.out)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--points", type=int, default=50, help="kills of each kind")
    parser.add_argument("--kinds", nargs="+", choices=("replay", "live"), default=["replay", "live"])
    parser.add_argument("--seed", type=int, default=0, help="of their moments")
    parser.add_argument("--budget-s", type=float, default=3600.0, help="no live search is killed after this")
    parser.add_argument("--out", type=Path, help="result file, saved after each point")
    parser.add_argument("--commit", help="what the result says of the code; default: git's HEAD")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args()
    until = time.monotonic() + args.budget_s
    victim.preload()
    env = victim.machine(args.target)
    slug = "host" if args.target == "host" else str(env["device"]).split()[-1].lower()
    args.out = args.out or ROOT / f"bench/results/kills-{slug}.json"
    result = {"env": env, **begin(args)}
    if "replay" in args.kinds and (result["replay"] or {}).get("points", 0) < args.points:
        result["replay"] = replay(args.points, args.seed)
        save(result, args)
    if "live" in args.kinds:
        chance = random.Random(args.seed + len(result["live"]))
        with tempfile.TemporaryDirectory(prefix="kernelforge-kills-") as folder:
            live(Trials(args.target, Path(folder), chance), result, args, until)
    save(result, args)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        print(f"{result['points']} points: {len(result['wrong'])} wrong", *result["wrong"], sep="\n")
    return 4 if result["wrong"] else 6 if "left" in result else 0


if __name__ == "__main__":
    sys.exit(main())
