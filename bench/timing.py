"""How the timing rule behaves on this machine: A/A noise, false acceptances, power. Writes bench/results/timing-host.json, or timing-DEVICE.json.

    python bench/timing.py --target host --budget-s 900
    python bench/timing.py --target cuda --budget-s 300

For operators of about 5, 20, 100 and 1,000 us (sigmoid on float32): how wide eager against eager is after 16 to 128 blocks; how often eager is accepted
when it takes a candidate's place; how often a candidate is accepted that is truly 1.02, 1.05 or 1.1 times as fast, which eager is made to be by calls that
its samples make and do not count. A trial is a whole confirmation as the product does it: its blocks come from `referee/ruler.py`, its looks from the
core's rule (`judge.weigh`). One thread on the host, so that neighbours that take a core do not stop a call at its barriers; they disturb the times all the
same, and the rule has to stand that.

`aa_beyond` counts the A/A trials whose lower bound was above 1 at some look, margin or not: what the statistics alone would let through. `margin` is the
gain that had to be exceeded, a median over the trials: where it is above a power row's gain, that row cannot be accepted, by design. A run that was ended
early is taken up where it stopped. `totals` is for bench/trust.py.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
OVERLOAD = "aten::sigmoid"
SIZES_US = (5, 20, 100, 1000)
GAINS = (1.02, 1.05, 1.1)
# Trials an operator. A host disturbs long calls more, so that they take more looks.
AA_TRIALS = {
    "host": {5: 400, 20: 300, 100: 200, 1000: 100},
    "cuda": {5: 100, 20: 100, 100: 60, 1000: 40},
}
POWER_TRIALS = {5: 40, 20: 40, 100: 20, 1000: 6}
SERIES = {5: 5, 20: 5, 100: 5, 1000: 3}  # of the longest confirmation, for the noise
CHUNK_S = 20.0  # between two savings within a row


def totals(target_file: Path) -> dict[str, int]:
    """Return {"aa_trials", "aa_accepted"} of a result file, zeros where there is none.

    Example:
        >>> totals(Path("bench/results/no-such-file.json"))
        {'aa_trials': 0, 'aa_accepted': 0}
    """
    try:
        rows = json.loads(target_file.read_text())["rows"]
    except (OSError, ValueError, KeyError):
        rows = []
    aa = [r["aa"] for r in rows if "aa" in r]
    return {"aa_trials": sum(a["trials"] for a in aa), "aa_accepted": sum(a["accepted"] for a in aa)}


class Operator:
    """Sigmoid on as many elements as take about so long, over the sets that a confirmation would rotate."""

    def __init__(self, wanted_us: int, place: Any) -> None:
        import torch

        from kernelforge.referee.pool import sets_for
        from kernelforge.referee.ruler import calls_of, inner_for

        self.place, self.wanted_us = place, wanted_us
        elements = 1024
        for _ in range(12):
            size = 4 * elements
            sets = [[torch.randn(elements, device=place.device)] for _ in range(sets_for(size, place))]
            self.calls = calls_of(place, OVERLOAD, sets)
            once = min(self.calls.eager(5, 20)) / 1e3
            if 0.8 <= once / wanted_us <= 1.25:
                break
            grown = elements * min(max(wanted_us / once, 0.2), 8)
            if int(grown) == elements or (grown < elements <= 1024):
                break  # the least that a call takes on this device
            elements = max(int(grown), 1024)
        self.elements, self.eager_us = elements, once
        self.inner = inner_for(once * 1e3, len(sets), place)

    def blocks(self, count: int, seed: int, inner: int, padding: int = 0) -> dict[str, list[float]]:
        return self.calls.blocks(count, inner, seed, control=True, padding=padding)


def weigh(seen: dict[str, list[float]], target: str) -> dict[str, Any]:
    from kernelforge import _core

    empty: dict[str, Any] = {
        "readings": [],
        "warm": {"eager_ns": [], "ours_ns": []},
        "pool_bytes": 0,
        "status": "ok",
        "detail": "",
        "rule": 0,
    }
    answer: dict[str, Any] = _core.call("judge.weigh", blocks={**empty, **seen}, target=target)
    return answer


def trial(op: Operator, seed: int, gain: float = 1.0) -> dict[str, Any]:
    """Confirm eager against eager, made slower by this gain; return the last answer of the rule, and in `beyond` whether a bound was above 1."""
    inner = op.inner
    if gain > 1:
        inner = math.ceil(round(1 / (gain - 1), 9))  # the fewest calls of which one more is the gain
        inner *= max(1, round(op.inner / inner))
    padding = round(inner * (gain - 1))
    seen: dict[str, list[float]] = {"eager_ns": [], "ours_ns": [], "again_ns": []}
    answer: dict[str, Any] = {"looks": [16], "low": 0.0}
    beyond = False
    for look in range(len(looks())):
        more = looks()[look] - len(seen["eager_ns"])
        got = op.blocks(more, seed + 1000 * look, inner, padding)
        seen = {k: seen[k] + got[k] for k in seen}
        answer = weigh(seen, op.place.target)
        beyond = beyond or answer["low"] > 1
        if answer["done"]:
            break
    return answer | {"beyond": beyond}


def looks() -> list[int]:
    """Return the numbers of blocks at which a confirmation looks: the core's."""
    if not _looks:
        one = {k: [1.0] * 6 for k in ("eager_ns", "ours_ns", "again_ns")}
        _looks.extend(weigh(one, "host")["looks"])
    return _looks


_looks: list[int] = []


def noise(op: Operator) -> dict[str, float]:
    """Return the median half-width of eager against eager by number of blocks, as a part of the time."""
    found: dict[int, list[float]] = {n: [] for n in looks()}
    for series in range(SERIES[op.wanted_us]):
        got = op.blocks(looks()[-1], 77 + series, op.inner)
        for n in found:
            found[n].append(weigh({k: v[:n] for k, v in got.items()}, op.place.target)["aa_half_width"])
    return {str(n): round(statistics.median(v), 5) for n, v in found.items()}


def counted(answers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "trials": len(answers),
        "accepted": sum(a["decision"] == "faster" for a in answers),
        "ambiguous": sum(not a["done"] for a in answers),
        "beyond": sum(a["beyond"] for a in answers),
        "blocks": round(statistics.mean(a["samples"] for a in answers), 1),
        "ratio": round(statistics.median(a["ratio"] for a in answers), 4),
        "margin": round(statistics.median(a["margin"] for a in answers), 4),
    }


def merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of two parts of a row together; medians are those of the larger part."""
    if old is None:
        return new
    n, m = old["trials"], new["trials"]
    larger = old if n >= m else new
    sums = {k: old[k] + new[k] for k in ("trials", "accepted", "ambiguous", "beyond")}
    return {**larger, **sums, "blocks": round((n * old["blocks"] + m * new["blocks"]) / (n + m), 1)}


class Bench:
    """One result file: what it has, and what is left to measure."""

    def __init__(self, target: str, out: Path | None, budget_s: float, commit: str) -> None:
        import torch

        from kernelforge import _pins
        from kernelforge._place import place_of

        self.place, self.target = place_of("cuda" if target == "cuda" else "cpu"), target
        if target == "host":
            torch.set_num_threads(1)
        self.environment = _pins.environment(self.place)
        words = [w for w in str(self.environment["device"]).lower().split() if w not in ("nvidia", "geforce")]
        self.path = out or RESULTS / f"timing-{'host' if target == 'host' else '-'.join(words)}.json"
        self.until, self.commit = time.monotonic() + budget_s, commit
        self.command = f"python bench/timing.py --target {target} --budget-s {budget_s:g}"
        self.rows = self._found()

    def _found(self) -> list[dict[str, Any]]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return []
        # One that is complete is measured anew, unless it is of this very code.
        fits = found.get("env") == self.environment and (
            not found.get("complete") or found.get("commit") == self.commit
        )
        return list(found["rows"]) if fits else []

    def run(self) -> None:
        # False acceptances of all operators first: they are what the trust result counts.
        for kind in ("aa", "half_width", *map(str, GAINS)):
            for us in SIZES_US:
                if time.monotonic() < self.until:
                    self._row(us, kind)

    def _row(self, us: int, kind: str) -> None:
        row = next((r for r in self.rows if r["operator_us"] == us), None)
        if row is None:
            row = {"operator_us": us, "power": {}}
            self.rows.append(row)
        where = row if kind in ("aa", "half_width") else row["power"]
        wanted = {"half_width": 1, "aa": AA_TRIALS[self.target][us]}.get(kind, POWER_TRIALS[us])
        have = where[kind]["trials"] if kind in where and kind != "half_width" else int(kind in where)
        if have >= wanted:
            return
        op = Operator(us, self.place)
        row |= {
            "op": OVERLOAD,
            "elements": op.elements,
            "eager_us": round(op.eager_us, 2),
            "inner": op.inner,
            "how": op.calls.how,
        }
        if kind == "half_width":
            where[kind] = noise(op)
            self._save(row, kind)
            return
        while have < wanted and time.monotonic() < self.until:
            answers: list[dict[str, Any]] = []
            begin = time.monotonic()
            while have + len(answers) < wanted and time.monotonic() < min(self.until, begin + CHUNK_S):
                seed = 10_000_000 * SIZES_US.index(us) + 5000 * (have + len(answers))
                answers.append(trial(op, seed, 1.0 if kind == "aa" else float(kind)))
            if answers:
                where[kind] = merged(where.get(kind), counted(answers))
                have += len(answers)
                self._save(row, kind)

    def _save(self, row: dict[str, Any], kind: str) -> None:
        row["made"] = resumed.now()
        done = all(
            r.get("aa", {}).get("trials", 0) >= AA_TRIALS[self.target][r["operator_us"]]
            and "half_width" in r
            and all(
                r["power"].get(str(g), {}).get("trials", 0) >= POWER_TRIALS[r["operator_us"]] for g in GAINS
            )
            for r in self.rows
        )
        aa = [r["aa"] for r in self.rows if "aa" in r]
        result = {
            "schema": 1,
            "made": resumed.now(),
            "command": self.command,
            "commit": self.commit,
            "env": self.environment,
            "threads": 1 if self.target == "host" else None,
            "aa_trials": sum(a["trials"] for a in aa),
            "aa_accepted": sum(a["accepted"] for a in aa),
            "aa_accepted_most": 0.005,
            "complete": done and len(self.rows) == len(SIZES_US),
            "rows": self.rows,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(result, indent=1) + "\n")
        told = row[kind] if kind in row else row["power"][kind]
        print(f"{row['operator_us']} us, {kind}: {json.dumps(told)}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--budget-s", type=float, default=600, help="begin no trial after this (default 600)")
    parser.add_argument("--out", type=Path, help="result file (default: bench/results/timing-TARGET.json)")
    parser.add_argument("--commit", help="what the result file says of the code; default: git's HEAD")
    given = parser.parse_args()
    if given.target == "cuda":
        import torch

        if not torch.cuda.is_available():
            print(
                "time A/A on CUDA: torch sees no device\nhint: run it on a machine with a GPU",
                file=sys.stderr,
            )
            return 5
    import torch

    from kernelforge import _ext

    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    bench = Bench(given.target, given.out, given.budget_s, given.commit or head.stdout.strip())
    with torch.inference_mode(), _ext.measuring():
        bench.run()
    print(json.dumps({"file": str(bench.path), **totals(bench.path)}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
