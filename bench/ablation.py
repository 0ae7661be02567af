"""Ways to search at equal numbers of candidates, from recorded cost tables. Runs on any machine; nothing is measured.

    python bench/ablation.py --tables bench/results/cost-tables-h200.json.gz

The tables are those of bench/cost_tables.py; the searching is go/search with the proposer of every study (bench/compare, which needs `go`, or
`go build -o build/compare ./bench/compare` before). It writes `ablation` into bench/results/search-h200.json (of the device whose tables they are), beside
what bench/search.py has put there, the curves into search-ablation-h200.json, and a plot of them beside it.

`best_cost` of an entry is the geometric mean of the least cost found, over its seeds; `low` and `high` hold that mean in 95 of 100 resamplings of the
seeds. `summary` is over all cards: the least cost found over the least in the table, and by how much a policy's exceeds that of `mcts` (`over_mcts`; above
1: `mcts` found better), resampled by card and seed. `mcts` wins at a budget where `low` of that exceeds 1 for every other policy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
COMPARE = ROOT / "build/compare"
BUDGETS = (4, 8, 12, 16, 24, 40)
SEEDS = 40
RESAMPLINGS = 400
UNFINISHED = 6
COLOURS = {
    "mcts": "#c0392b",
    "mcts_raw_ms": "#e59866",
    "random": "#7f8c8d",
    "greedy": "#2471a3",
    "beam": "#1e8449",
    "mcts_without_prior": "#f0b27a",
    "mcts_without_evidence": "#d98880",
    "evidence_without_tree": "#8e44ad",
}
Row = dict[str, Any]


def curves(tables: Path, seeds: int) -> list[Row]:
    """Return what each policy had found on each card after each candidate, for each seed.

    Raises:
        SystemExit: neither the program nor `go` is here, or the tables are not whole.
    """
    program = [str(COMPARE)] if COMPARE.exists() else ["go", "run", "./bench/compare"]
    if shutil.which(program[0]) is None:
        raise SystemExit("ablation: neither `go` nor build/compare is here")
    command = [*program, "-seeds", str(seeds), "-budget", str(max(BUDGETS)), str(tables)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ablation: {done.stderr.strip()}")
    found: list[Row] = json.loads(done.stdout)
    return found


def geomean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def interval(draw: Any, chance: random.Random) -> tuple[float, float]:
    """Return the middle 95 % of a statistic under resampling. draw: the statistic of one resampling."""
    drawn = sorted(draw(chance) for _ in range(RESAMPLINGS))
    return drawn[round(0.025 * (RESAMPLINGS - 1))], drawn[round(0.975 * (RESAMPLINGS - 1))]


def entries(cards: list[Row]) -> list[Row]:
    """Return the `ablation` of a result file: card, policy, budget, seeds, best_cost, low, high."""
    rows, chance = [], random.Random(0)
    for card in cards:
        for policy in COLOURS:
            for budget in BUDGETS:
                logs = [math.log(c[budget - 1]) for c in card["curves"][policy]]

                def draw(r: random.Random, logs: list[float] = logs) -> float:
                    return math.exp(statistics.fmean(r.choices(logs, k=len(logs))))

                low, high = interval(draw, chance)
                rows.append(
                    {
                        "card": card["card"],
                        "policy": policy,
                        "budget": budget,
                        "seeds": len(logs),
                        "best_cost": math.exp(statistics.fmean(logs)),
                        "low": low,
                        "high": high,
                    }
                )
    return rows


def summary(cards: list[Row]) -> list[Row]:
    """Return each policy at each budget over all cards."""
    rows, chance = [], random.Random(0)
    for budget in BUDGETS:

        def logs(card: Row, policy: str, budget: int = budget) -> list[float]:
            return [math.log(c[budget - 1] / card["least"]) for c in card["curves"][policy]]

        ours = [logs(c, "mcts") for c in cards]
        for policy in COLOURS:
            theirs = [logs(c, policy) for c in cards]
            pairs = list(zip(theirs, ours, strict=True))

            def draw(r: random.Random, pairs: list[Any] = pairs) -> float:
                means = [
                    statistics.fmean(r.choices(a, k=len(a))) - statistics.fmean(r.choices(b, k=len(b)))
                    for a, b in r.choices(pairs, k=len(pairs))
                ]
                return math.exp(statistics.fmean(means))

            row = {
                "policy": policy,
                "budget": budget,
                "over_least": math.exp(statistics.fmean(statistics.fmean(a) for a in theirs)),
            }
            if policy != "mcts":
                low, high = interval(draw, chance)
                over = math.exp(statistics.fmean(statistics.fmean(a) - statistics.fmean(b) for a, b in pairs))
                row |= {"over_mcts": over, "low": low, "high": high}
            rows.append(row)
    return rows


# ---- the plot -------------------------------------------------------------------------------------------------------------------------


def plot(cards: list[Row], title: str) -> str:
    """Return an SVG of the geometric mean over cards and seeds of the least cost found / the least in the table, after each candidate."""
    width, height, left, right, top, bottom = 860, 470, 70, 230, 50, 55
    most = max(BUDGETS)
    lines = {}
    for policy in COLOURS:
        lines[policy] = [
            geomean([c[i] / card["least"] for card in cards for c in card["curves"][policy]])
            for i in range(most)
        ]
    ceiling = max(line[0] for line in lines.values())

    def x(i: float) -> float:  # candidates, logarithmic: the first ones matter most
        return left + (width - left - right) * math.log(i) / math.log(most)

    def y(v: float) -> float:
        return height - bottom - (height - top - bottom) * math.log(v) / max(math.log(ceiling), 1e-9)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="24" font-size="16">{title}</text>',
    ]
    for i in (1, 2, 4, 8, 16, 24, 40):
        out.append(
            f'<path d="M{x(i):.1f} {top}V{height - bottom}" stroke="#eee"/><text x="{x(i):.1f}" y="{height - bottom + 18}" text-anchor="middle">{i}</text>'
        )
    for part in range(5):
        v = ceiling ** (part / 4)
        out.append(
            f'<path d="M{left} {y(v):.1f}H{width - right}" stroke="#eee"/><text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>'
        )
    out.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">candidates</text>'
    )
    middle = (top + height - bottom) / 2
    out.append(
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">least cost found / least there is</text>'
    )
    for place, (policy, line) in enumerate(lines.items()):
        path = "M" + "L".join(f"{x(i + 1):.1f} {y(v):.1f}" for i, v in enumerate(line))
        dash = ' stroke-dasharray="5 4"' if "without" in policy else ""
        stroke = f'stroke="{COLOURS[policy]}" stroke-width="{3 if policy == "mcts" else 1.8}"{dash}'
        out.append(f'<path d="{path}" fill="none" {stroke}/>')
        at = top + 12 + 22 * place
        out.append(
            f'<path d="M{width - right + 16} {at}h24" {stroke}/><text x="{width - right + 48}" y="{at + 4}">{policy.replace("_", " ")}</text>'
        )
    return "\n".join([*out, "</svg>\n"])


# ---- the files ------------------------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, default=RESULTS / "cost-tables-host.json.gz")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    tables: Path = arguments.tables.absolute()
    slug = tables.name.removeprefix("cost-tables-").removesuffix(".json.gz")
    if not tables.exists():
        print(f"there is no `{tables}`; hint: python bench/cost_tables.py records it")
        return UNFINISHED
    with gzip.open(tables, "rt") as f:
        recorded = json.load(f)
    cards = curves(tables, arguments.seeds)
    about = {
        "made": resumed.now(),
        "command": f"python bench/ablation.py --tables bench/results/{tables.name}",
        "tables": {
            "made": recorded["made"],
            "cards": [
                {k: c.get(k) for k in ("name", "made", "commit", "points", "sampled", "whole", "note")}
                | {"rows": len(c["rows"])}
                for c in recorded["cards"]
            ],
        },
    }
    result: Path = arguments.into / f"search-{slug}.json"
    kept = json.loads(result.read_text()) if result.exists() else {"schema": 1, **about}
    resumed.write({**kept, "ablation_made": about["made"], "ablation": entries(cards)}, result)
    told = summary(cards)
    rounded = [
        {**c, "curves": {p: [[round(v, 5) for v in one] for one in all_] for p, all_ in c["curves"].items()}}
        for c in cards
    ]
    beside = arguments.into / f"search-ablation-{slug}.json"
    content = {
        "schema": 1,
        **about,
        "env": recorded["cards"][0]["env"],
        "summary": told,
        "mean_curves": means(rounded),
    }
    resumed.write(content, beside)
    device = recorded["cards"][0]["env"]["device"]
    beside.with_suffix(".svg").write_text(
        plot(cards, f"{len(cards)} cards, {arguments.seeds} seeds: {device}")
    )
    for row in told:
        beats = (
            ""
            if "low" not in row
            else f"   over mcts {row['over_mcts']:.4f} ({row['low']:.4f} to {row['high']:.4f})"
        )
        print(f"{row['budget']:3} candidates  {row['policy']:22} {row['over_least']:.4f} of the least{beats}")
    print(f"results: {result}, {beside}")
    return 0


def means(cards: list[Row]) -> list[Row]:
    """Return each card's curves as geometric means over their seeds."""
    return [
        {
            **c,
            "curves": {
                p: [round(geomean(list(v)), 5) for v in zip(*all_, strict=True)]
                for p, all_ in c["curves"].items()
            },
        }
        for c in cards
    ]


if __name__ == "__main__":
    sys.exit(main())
