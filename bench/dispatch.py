"""What a hook adds to a call: idle, a miss among 64 plans, a hit. Writes bench/results/dispatch-host.json, or dispatch-DEVICE.json.

    python bench/dispatch.py --budget-s 120
    python bench/dispatch.py --budget-s 240 --device cuda

A round is one process that goes from state to state: `idle` has the hooks and nothing published, `miss64` and `hit` have 64 plans for each overload. In each
state blocks of two neighbouring samples are taken, in random order, with one ruler (`kernelforge._C.hook_cost`: what a boxed call costs its thread,
under inference_mode, one thread; on CUDA the device has nothing to do when a sample begins, and its queue never fills): through the dispatcher, and as
if the operator had no hook. added_ns is their difference, eager_ns the latter: neighbours in time, since on a shared machine a call's own time drifts by half.

What code placement does shows between rounds. added_ns is the median of the rounds' medians; low and high are those of them between which the true median lies with
95 % or more (of six rounds the smallest and the largest; of fewer, no interval does, and they are these as well). The row of a case is its worst overload. A
run that was ended early is taken up where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import resumed
from dispatch_kernels import COLUMNS, OVERLOADS, arguments, plans_for

CASES = ("idle", "miss64", "hit")
PLANS = 64
RESULTS = Path(__file__).parent / "results"
ROUNDS = {"cpu": 8, "cuda": 9}
# A sample is shorter than a time slice, so that the median of many is undisturbed when other work shares the core.
BLOCKS, INNER = {"cpu": 400, "cuda": 200}, 250

Round = dict[
    str, dict[str, dict[str, float]]
]  # overload -> case -> {"bare": ns of a call, "added": ns that the hook adds}


# ---- one process: a round -----------------------------------------------------------------------------------------------------------


def serve(seed: int, device: str) -> Round:
    """Go through the states; return what a call costs in each.

    Raises:
        RuntimeError: a state served other calls than it should.
    """
    import torch

    import kernelforge._C as module

    torch.set_num_threads(1)
    blocks = BLOCKS[device]
    sets = {overload: [arguments(text, COLUMNS, device)] for overload, (text, _, _) in OVERLOADS.items()}
    found: Round = {overload: {} for overload in OVERLOADS}

    def measure(case: str) -> None:
        for overload in OVERLOADS:
            module.stats(reset=True)
            cost = module.hook_cost(overload, sets[overload], blocks, INNER, seed)
            pairs = list(zip(cost["hooked_ns"], cost["bare_ns"], strict=True))
            found[overload][case] = {
                "bare": round(statistics.median(cost["bare_ns"]), 1),
                "added": round(statistics.median(hooked - bare for hooked, bare in pairs), 1),
            }
            hits = module.stats()["ops"].get(overload, {}).get("hits", 0)
            expected = 1 + blocks * INNER if case == "hit" else 0
            if hits != expected:
                raise RuntimeError(
                    f"time dispatch: case `{case}` served `{overload}` {hits} times (expected {expected})"
                )

    def publish(columns: list[int]) -> None:
        module.publish([p for overload in OVERLOADS for p in plans_for(module, overload, columns, device)])

    with torch.inference_mode():
        sets = {
            o: [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for args in s]
            for o, s in sets.items()
        }
        module.install()
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        measure("idle")
        columns = list(range(COLUMNS + 1, COLUMNS + 1 + PLANS))
        publish(columns)
        measure("miss64")
        publish([COLUMNS, *columns[1:]])
        for overload, ((args,)) in sets.items():
            expected = torch.stack([out.sum() for out in module.call(overload, args)])
            with module.thread_off():
                torch.testing.assert_close(
                    expected, torch.stack([out.sum() for out in module.call(overload, args)])
                )
        measure("hit")
    return found


# ---- the measurement ----------------------------------------------------------------------------------------------------------------


def one_round(seed: int, device: str = "cpu") -> Round:
    """Return the medians of a process of its own.

    Raises:
        RuntimeError: it failed; the text is what it said.
    """
    command = [sys.executable, __file__, "--serve", str(seed), "--device", device]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(
            f"time dispatch: a round ended with code {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    medians: Round = json.loads(done.stdout.splitlines()[-1])
    return medians


def interval(values: list[float]) -> tuple[float, float]:
    """Return the narrowest pair of values that holds the median with 95 % or more, whatever its distribution; too few values: the extremes.

    Example:
        >>> interval([1, 2, 3, 4, 5, 6]), interval([float(n) for n in range(1, 13)])
        ((1, 6), (3.0, 10.0))
    """
    ordered, n = sorted(values), len(values)
    outside, cut = 0.0, 0  # the chance that the median lies outside the pair at `cut`
    while cut < n // 2:
        outside += 2 * math.comb(n, cut) / 2**n
        if outside > 0.05:
            break
        cut += 1
    cut = max(cut - 1, 0)
    return ordered[cut], ordered[n - 1 - cut]


def rows(rounds: list[Round]) -> list[dict[str, Any]]:
    """Return one row a case: its worst overload, and all of them under `overloads`."""
    out = []
    for case in CASES:
        found = []
        for overload in OVERLOADS:
            added = [r[overload][case]["added"] for r in rounds]
            eager = statistics.median(r[overload][case]["bare"] for r in rounds)
            found.append(
                {
                    "overload": overload,
                    "added_ns": round(statistics.median(added), 1),
                    "low": interval(added)[0],
                    "high": interval(added)[1],
                    "eager_ns": round(eager, 1),
                }
            )
        out.append({"case": case, **max(found, key=lambda f: f["high"]), "overloads": found})
    return out


def unfinished(path: Path, environment: dict[str, Any], device: str = "cpu") -> list[Round]:
    """Return the rounds of an earlier run on this machine that its budget or a signal ended; a finished file is measured anew."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    rounds: list[Round] = found.get("rounds", [])
    shape = (found.get("blocks"), found.get("inner"))
    fits = found.get("env") == environment and shape == (BLOCKS[device], INNER)
    return rounds if fits and len(rounds) < ROUNDS[device] else []


def result_path(device: str, environment: dict[str, Any]) -> Path:
    """Return the file of a device's results: `dispatch-host.json`, `dispatch-h200.json`."""
    if device == "cpu":
        return RESULTS / "dispatch-host.json"
    words = [w for w in environment["device"].lower().split() if w not in ("nvidia", "geforce")]
    return RESULTS / f"dispatch-{'-'.join(words)}.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--budget-s", type=float, default=600, help="stop starting rounds after this (default 600)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="result file (default: bench/results/dispatch-DEVICE.json)")
    parser.add_argument("--commit", help="what the result file says of the code; default: git's HEAD")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        print(json.dumps(serve(given.serve, given.device)))
        return 0

    from kernelforge import _pins
    from kernelforge._place import place_of

    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print(
                "time dispatch on CUDA: torch sees no device\nhint: run it on a machine with a GPU",
                file=sys.stderr,
            )
            return 5
    environment = _pins.environment(place_of(given.device))
    out: Path = given.out or result_path(given.device, environment)
    start, rounds = time.monotonic(), unfinished(out, environment, given.device)
    while len(rounds) < ROUNDS[given.device] and time.monotonic() - start < given.budget_s:
        rounds.append(one_round(len(rounds), given.device))
        result = {
            "schema": 1,
            "made": resumed.now(),
            "command": f"python bench/dispatch.py --budget-s {given.budget_s:g}"
            + (" --device cuda" if given.device == "cuda" else ""),
            "commit": given.commit or _head(),
            "env": environment,
            "budget_ns": {"idle": 100, "miss64": 300, "hit": 0},
            "rounds_wanted": ROUNDS[given.device],
            "blocks": BLOCKS[given.device],
            "inner": INNER,
            "rows": rows(rounds),
            "rounds": rounds,
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
        for row in result["rows"]:
            print(
                f"round {len(rounds)}: {row['case']:7} {row['added_ns']:+8.1f} ns [{row['low']:+.1f}, {row['high']:+.1f}] on {row['overload']}, eager {row['eager_ns']:.0f} ns"
            )
    return 0


def _head() -> str:
    """Return the commit of this checkout, "" where git does not tell."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
        )
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
