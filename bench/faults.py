"""Injects faults into searches and sees that each is contained: nothing is lost, the user's process is unharmed, the search goes on.

    python bench/faults.py --target host --out bench/results/faults-host.json
    python bench/faults.py --target cuda --jobs 4 --json --out build/faults-cuda.json
    python bench/faults.py --target host --sample 12 --seed 7      # some of them, as in CI

Faults come in four kinds: candidates (bench/injected.py), processes that are killed or stopped, places without room and devices without memory, and the
user's own interruptions. `recover_s` is the time from the fault, or from the moment at which a hang is ended, to the next working candidate; where the
process itself ends (it is killed, interrupted, or its disk is full) it is the time until it has ended, after the measurement in flight, with nothing of
it left. `load` is what the machine did beside, a mean over a minute: with more than its cores, the seconds are not ours alone. A row is saved as soon
as it is known, and a run with the same --out goes on where an earlier one of the commit stopped. With `--jobs` several faults are under way at a time,
each with a search of its own, but for those that leave a device no memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import faults_candidates
import faults_places
import faults_processes
import faults_user
import resumed
import victim
from faults_row import NotInjected, Row, Trials

ENDED = {True: "contained", False: "NOT CONTAINED", None: "not injected"}
RECOVER_S = 2.0  # budget: docs/architecture.md
ALONE = ("memory_of_the_user", "memory_of_the_worker")  # nothing else finds memory on the device beside them


def listed(target: str) -> dict[str, Any]:
    """Return all faults of a target: {name: how it is injected}."""
    parts = (faults_candidates, faults_processes, faults_places, faults_user)
    return {name: inject for part in parts for name, inject in part.faults(target).items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--budget-s", type=float, default=1200.0, help="no fault is injected after this time")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the moments at which faults strike, and of the sample"
    )
    parser.add_argument(
        "--sample",
        type=int,
        help="inject this many of the faults, chosen by the seed",
    )
    parser.add_argument("--only", nargs="+", help="inject these")
    parser.add_argument("--jobs", type=int, default=1, help="faults under way at a time (1)")
    parser.add_argument(
        "--out", type=Path, help="result file, saved after each row; a later run goes on with it"
    )
    parser.add_argument("--commit", help="what the result says of the code; default: git's HEAD")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args()
    known = listed(args.target)
    names = args.only or list(known)
    if wrong := [n for n in names if n not in known]:
        parser.error(f"no such fault: {', '.join(wrong)} (there are {', '.join(known)})")
    if args.jobs < 1:
        parser.error(f"--jobs {args.jobs}: no fault would be injected (expected 1 or more)")
    if args.sample is not None:
        names = random.Random(args.seed).sample(sorted(names), min(args.sample, len(names)))
    result = {"env": victim.machine(args.target), **begin(args)}
    done = {row["name"] for row in result["rows"]}
    names = [n for n in names if n not in done]
    beside = [n for n in names if n not in ALONE]
    until = time.monotonic() + args.budget_s
    victim.preload()
    with tempfile.TemporaryDirectory(prefix="kernelforge-faults-") as folder:
        for some, jobs in ((beside, args.jobs), ([n for n in names if n in ALONE], 1)):
            for row in rows(some, jobs, until, (args.target, folder, args.seed)):
                result["rows"].append({**row.to_dict(), "load": round(os.getloadavg()[0], 1)})
                save(result, args)
                if not args.json:
                    tell(result["rows"][-1])
    if left := [n for n in names if n not in {r["name"] for r in result["rows"]}]:
        result["left"] = left
    save(result, args)
    if args.json:
        print(json.dumps(result, indent=1))
    return 0 if result["contained"] == result["faults"] and "left" not in result else 4


def rows(names: Sequence[str], jobs: int, until: float, about: tuple[str, str, int]) -> Iterator[Row]:
    """Give the rows of faults as they are known, without those whose turn would have come after `until`; about: target, folder, seed."""
    brought = [n for n in names if n in faults_candidates.faults(about[0])]
    parts = [*filter(None, [brought]), *([n] for n in names if n not in brought)]
    if parts:
        fork = multiprocessing.get_context("fork")  # of a process that has imported torch already
        with ProcessPoolExecutor(min(jobs, len(parts)), fork, _start, about) as pool:
            for ended in as_completed([pool.submit(_strike, part, until) for part in parts]):
                yield from ended.result()


_ours: dict[str, Any] = {}  # of a process that injects: the searches it makes and the seed of its faults


def _start(target: str, folder: str, seed: int) -> None:
    _ours.update(trials=Trials(target, Path(folder) / str(os.getpid()), random.Random(seed)), seed=seed)


def _strike(names: Sequence[str], until: float) -> list[Row]:
    """Return the rows of some faults, without those whose turn came too late. Several come in one study; what was not contained there stays so, and is
    injected again alone to tell what it did from what came before it."""
    trials: Trials = _ours["trials"]
    together = dict[str, Row]()
    if len(names) > 1 and time.monotonic() < until:
        began = time.monotonic()
        try:
            together = {row.name: row for row in faults_candidates.inject_all(trials, names)}
        except Exception as e:
            traceback.print_exc()
            together = {n: Row(n, False, None, f"the harness failed: {type(e).__name__}: {e}") for n in names}
        for row in together.values():
            timed(row, (time.monotonic() - began) / len(names))
    found = [row for row in together.values() if row.contained]
    for name in names:
        if time.monotonic() < until and (name not in together or not together[name].contained):
            trials.chance.seed(f"{_ours['seed']} {name}")  # its moment is decided by this alone
            found.append(one(listed(trials.target)[name], name, trials))
            if name in together and found[-1].contained:
                found[-1].contained = False
                found[-1].saw = f"contained alone, but not after others in one study: {together[name].saw}"
    return found


def one(inject: Any, name: str, trials: Trials) -> Row:
    """Return the row of one fault. A harness that breaks has shown nothing, so that is no contained fault."""
    began = time.monotonic()
    try:
        row: Row = inject(trials, name)
    except NotInjected as e:
        row = Row(name, None, None, f"not injected: {e}")
    except Exception as e:
        traceback.print_exc()
        row = Row(name, False, None, f"the harness failed: {type(e).__name__}: {e}")
    return timed(row, time.monotonic() - began)


def timed(row: Row, took_s: float) -> Row:
    """Note what a row took, and whether the search went on late."""
    row.took_s = took_s
    if row.contained and row.recover_s is not None and row.recover_s > RECOVER_S:
        row.saw += f"; it took longer than {RECOVER_S:g} s to go on"
    return row


def begin(args: argparse.Namespace) -> dict[str, Any]:
    """Return the result of an earlier run of this commit and seed, or an empty one."""
    command = resumed.said("faults", sys.argv[1:])
    about = {"target": args.target, "seed": args.seed}
    empty = {"rows": [], "faults": 0, "contained": 0, "recover_s_max": None}
    return resumed.begin(args.out, command, args.commit, about, empty)


def save(result: dict[str, Any], args: argparse.Namespace) -> None:
    rows = result["rows"]
    result["faults"] = sum(r["contained"] is not None for r in rows)
    result["contained"] = sum(r["contained"] is True for r in rows)
    result["not_injected"] = [r["name"] for r in rows if r["contained"] is None]
    result["recover_s_max"] = max((r["recover_s"] for r in rows if r["recover_s"] is not None), default=None)
    resumed.write(result, args.out)


def tell(row: dict[str, Any]) -> None:
    recover = "" if row["recover_s"] is None else f"{row['recover_s']:.2f} s"
    print(
        f"{row['name']:24} {ENDED[row['contained']]:14} {recover:>8}  {row['saw'][:200]}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
