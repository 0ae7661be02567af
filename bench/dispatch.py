"""What a hook adds to a call: idle, a miss among 64 plans, a hit. Writes bench/results/dispatch-host.json, or dispatch-DEVICE.json.

    python bench/dispatch.py --budget-s 120
    python bench/dispatch.py --budget-s 240 --device cuda

Four processes share one core and take turns: `plain` has loaded the extension but registered no hook, so it is torch as it was; `idle` has the
hooks and nothing published; `miss64` and `hit` have 64 plans for each overload. A block times each of them, in random order, with
one ruler (`kernelforge._C.host_cost`: what a boxed call costs its thread, under inference_mode, one thread; on CUDA the device has nothing to do when a
sample begins, and its queue never fills). added_ns is the block's difference to `plain`.

Code placement differs between processes, so a round starts all four anew. added_ns is the median of the rounds' medians; low and high are those of them
between which the true median lies with 95 % or more (of six rounds the smallest and the largest; of fewer, no interval does, and they are these as well).
On CUDA a call costs more and the processes differ more, so there are more and shorter rounds. The row of a case is its worst overload. A run that was
ended early is taken up where it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dispatch_kernels import COLUMNS, OVERLOADS, arguments, plans_for

CASES = ("plain", "idle", "miss64", "hit")
PLANS = 64
RESULTS = Path(__file__).parent / "results"
ROUNDS = {"cpu": 6, "cuda": 16}
BLOCKS = {"cpu": 40, "cuda": 12}
# A sample is shorter than a time slice, so that the median of nine is undisturbed when other work shares the core.
SAMPLES, INNER = 9, 250

# ---- one process of a case ----------------------------------------------------------------------------------------------------------


def serve(case: str, device: str) -> None:
    """Be the process of a case: a line `overload` in, one sample in nanoseconds out."""
    import torch

    import kernelforge._C as module

    torch.set_num_threads(1)
    core = max(os.sched_getaffinity(0))  # the four share it once they are ready; until then they may spread
    with torch.inference_mode():
        if case != "plain":
            module.install()
        if case in ("miss64", "hit"):
            columns = list(range(COLUMNS + 1, COLUMNS + 1 + PLANS))
            if case == "hit":
                columns[0] = COLUMNS
            module.publish(
                [p for overload in OVERLOADS for p in plans_for(module, overload, columns, device)]
            )
        sets = {overload: [arguments(text, COLUMNS, device)] for overload, (text, _, _) in OVERLOADS.items()}
        for overload, ((args,)) in sets.items():
            expected = torch.stack([out.sum() for out in module.call(overload, args)])
            with module.thread_off():
                torch.testing.assert_close(
                    expected, torch.stack([out.sum() for out in module.call(overload, args)])
                )
        os.sched_setaffinity(0, {core})
        print("ready", flush=True)
        module.stats(reset=True)
        for line in sys.stdin:
            samples = module.host_cost(line.strip(), sets[line.strip()], SAMPLES, INNER)
            print(statistics.median(samples), flush=True)
        print(json.dumps({name: op["hits"] for name, op in module.stats()["ops"].items()}), flush=True)


class Process:
    """A running case."""

    def __init__(self, case: str, device: str = "cpu") -> None:
        self.case = case
        command = [sys.executable, __file__, "--serve", case, "--device", device]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _line(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(
                f"time dispatch: the process of case `{self.case}` ended with code {self._child.wait()}"
            )
        return line

    def ready(self) -> None:
        while self._line().strip() != "ready":
            pass

    def sample(self, overload: str) -> float:
        assert self._child.stdin is not None
        self._child.stdin.write(overload + "\n")
        self._child.stdin.flush()
        return float(self._line())

    def end(self) -> dict[str, int]:
        """Close; return overload -> served calls."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        hits: dict[str, int] = json.loads(self._line())
        self._child.wait()
        return hits


# ---- the measurement ----------------------------------------------------------------------------------------------------------------


Round = dict[
    str, dict[str, float]
]  # overload -> case -> median nanoseconds: of `plain` itself, of the difference to it for the others


def one_round(seed: int, device: str = "cpu") -> Round:
    """Return the medians of processes started for this round."""
    order = random.Random(seed)
    processes = [Process(case, device) for case in CASES]
    for p in processes:
        p.ready()
    samples: dict[str, dict[str, list[float]]] = {o: {c: [] for c in CASES} for o in OVERLOADS}
    blocks = BLOCKS[device]
    for block in range(blocks + 1):
        for overload in OVERLOADS:
            for p in order.sample(processes, len(processes)):
                value = p.sample(overload)
                if block > 0:  # the first block warms caches
                    samples[overload][p.case].append(value)
    for p in processes:
        served = p.end()
        expected = (blocks + 1) * (SAMPLES * INNER + 1) if p.case == "hit" else 0
        for overload in OVERLOADS:
            if served.get(overload, 0) != expected:
                raise RuntimeError(
                    f"time dispatch: case `{p.case}` served `{overload}` {served.get(overload, 0)} times (expected {expected})"
                )
    medians: Round = {}
    for overload, by_case in samples.items():
        plain = by_case["plain"]
        medians[overload] = {"plain": round(statistics.median(plain), 1)} | {
            case: round(statistics.median(c - p for c, p in zip(by_case[case], plain, strict=True)), 1)
            for case in CASES[1:]
        }
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
    for case in CASES[1:]:
        found = []
        for overload in OVERLOADS:
            added = [r[overload][case] for r in rounds]
            eager = statistics.median(r[overload]["plain"] for r in rounds)
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
    shape = (found.get("blocks"), found.get("samples"), found.get("inner"))
    fits = found.get("env") == environment and shape == (BLOCKS[device], SAMPLES, INNER)
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
    parser.add_argument("--serve", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.device)
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
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": f"python bench/dispatch.py --budget-s {given.budget_s:g}"
            + (" --device cuda" if given.device == "cuda" else ""),
            "commit": given.commit or _head(),
            "env": environment,
            "budget_ns": {"idle": 100, "miss64": 300, "hit": 0},
            "rounds_wanted": ROUNDS[given.device],
            "blocks": BLOCKS[given.device],
            "samples": SAMPLES,
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
