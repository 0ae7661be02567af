"""Writes the result tables of the README from the result files, so that no figure there is typed by hand.

python bench/readme.py            rewrite the blocks between the markers
python bench/readme.py --check    fail if it differs (part of `make check`)
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import counters

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = "<!-- results: made by bench/readme.py -->", "<!-- end of results -->"
OPS = "<!-- ops: made by bench/readme.py -->", "<!-- end of ops -->"
CAPTURED = "<!-- captured: made by bench/readme.py -->", "<!-- end of captured -->"
TRUST = "<!-- trust: made by bench/readme.py -->", "<!-- end of trust -->"


ROWS = 7  # operators shown of each model


def found() -> list[dict[str, Any]]:
    """Return the whole-model results that are committed: those of GPUs first, the demo on the host last."""
    folder = ROOT / "bench" / "results"
    models = ("vae", "resnet50", "sd35", "gemma4", "gemma4_token", "qwen35")
    names = [path for name in models for path in sorted(folder.glob(f"{name}-*.json"))]
    names.append(folder / "demo-host.json")
    return [json.loads(path.read_text()) for path in names if path.exists()]


def title(data: dict[str, Any]) -> str:
    return str(data.get("title") or data["note"].removeprefix("torchvision "))


def where(data: dict[str, Any]) -> str:
    env = data["env"]
    device = (
        env["device"]
        if data.get("target") == "cuda" or env["driver"]
        else f"{env['device']}, {env['threads']} threads"
    )
    return f"{device}, torch {env['torch']}"


def summary(results: list[dict[str, Any]]) -> list[str]:
    """Return the table of whole models."""
    lines = [
        "| model | where | eager ms | kernelforge ms | speed-up, at least (median) | both as CUDA graphs | search | measured |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for data in results:
        m = data["model"]
        graphs = f"{m['graph_low']:.2f}× ({m['graph_ratio']:.2f}×)" if m.get("graph_ratio") else ""
        lines.append(
            f"| {title(data)} | {where(data)} | {m['eager_ms']:.1f} | {m['kernelforge_ms']:.1f} | **{m['low']:.2f}×** ({m['ratio']:.2f}×) | {graphs} "
            f"| {data['seconds']['total']:.0f} s | {data['made'][:10]} |"
        )
    return lines


def operators(data: dict[str, Any]) -> list[str]:
    """Return the table of one model's operators, the largest share first."""
    lines = [
        f"<details><summary>Operators of {title(data)}: where the time went</summary>",
        "",
        f"Remake it: `{data['command']}`.",
        "",
        "| operator | share of eager's time | eager µs a forward | kernelforge µs | kernel speed-up, at least (median) | served |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in sorted(data["rows"], key=lambda r: -r["share"])[:ROWS]:
        served = "yes" if row["served"] else "no: eager kept"
        lines.append(
            f"| `{row['op']}` | {row['share']:.1%} | {row['eager_us']:,.0f} | {row['kernelforge_us']:,.0f} | {row['low']:.2f}× ({row['ratio']:.2f}×) | {served} |"
        )
    return [*lines, "", "</details>"]


def ops(folder: Path = ROOT / "bench" / "results") -> list[str]:
    """Return the plot, the means and the goals of each result of bench/ops.py, its rows where it has few; nothing where there is none. Missed goals stay in the table."""
    found = [(path, json.loads(path.read_text())) for path in sorted(folder.glob("ops-*.json"))]
    lines: list[str] = []
    for path, data in ((p, d) for p, d in found if d["summary"].get("native", {}).get("rows")):
        native, goals = data["summary"]["native"], data["summary"]["goals"]
        if 2 * data["summary"]["measured"] < goals[-1]["of"]:  # the last goal is over all cases
            lines += begun(path, data)
            continue
        met, missed = (sum(g["met"] is m for g in goals) for m in (True, False))
        made = max(r["made"] for r in data["rows"])[:10]

        def mean(name: str, means: dict[str, Any] = native) -> str:
            return "not measured" if means[name] is None else f"{means[name]:.2f}×"

        lines += [
            "",
            f"**Operators alone, {where(data)}** ([{path.name}](bench/results/{path.name}), until {made}). Geometric means over {native['rows']} calls that the memory bounds, as times "
            f"a copy of the same bytes takes: eager {mean('eager_over_copy')}, torch.compile {mean('inductor_over_copy')}, max-autotune {mean('autotune_over_copy')}, "
            f"kernelforge **{mean('kernelforge_over_copy')}**. {data['summary']['served']} of {data['summary']['measured']} calls are served, eager is kept for the others; "
            f"of {len(goals)} goals {met} are met, {missed} missed, {len(goals) - met - missed} open.",
            "",
            f"![Every operator's distance from a copy](bench/results/{path.with_suffix('.svg').name})",
            "",
            "<details><summary>Goals, judged on the lower bound</summary>",
            "",
            "| eager / kernelforge, unless it says otherwise | goal | measured | |",
            "|---|---:|---:|---|",
        ]
        for g in goals:
            got = "" if g["got"] is None else f"{g['got']:g}"
            sign = "≤" if g["at_most"] else "≥"
            state = {
                True: "met",
                False: "missed" + limits(g, data),
                None: f"open: {g['measured']} of {g['of']} measured",
            }
            lines.append(f"| {g['goal']} | {sign} {g['wanted']:g} | {got} | {state[g['met']]} |")
        lines += ["", "</details>"]
    return lines


def limits(goal: dict[str, Any], data: dict[str, Any]) -> str:
    """Return what the counters say of the one row that a goal is about; nothing where there are none (bench/counters.py)."""
    rows = [r for r in data["rows"] if r["case"] in goal.get("cases", ()) and r.get("counters")]
    return f": {counters.told(rows[0]['counters'])}" if len(rows) == 1 and goal["of"] == 1 else ""


def begun(path: Path, data: dict[str, Any]) -> list[str]:
    """Return the rows of a result of bench/ops.py that has fewer than half of its cases: means and goals would say little."""
    whole = data["summary"]["goals"][-1]["of"]
    lines = [
        "",
        f"**Operators alone, {where(data)}** ([{path.name}](bench/results/{path.name})): {data['summary']['measured']} of {whole} calls are measured so far.",
        "",
        "| call | eager, µs | max-autotune, µs | kernelforge, µs | a copy, µs | eager / kernelforge, at least |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for r in data["rows"]:
        us = [r[k] for k in ("eager_us", "autotune_us", "kernelforge_us", "copy_us")]
        told = " | ".join("" if t is None else f"{t:.1f}" for t in us)
        gain = "" if r["low"] is None else f"{r['low']:.2f}×"
        lines.append(f"| {r['case']} | {told} | {gain} |")
    return lines


def captured(folder: Path = ROOT / "bench" / "results") -> list[str]:
    """Return the count of captured kernels that beat eager, of each result of bench/captured.py; nothing where there is none."""
    lines: list[str] = []
    for path in sorted(folder.glob("captured-*.json")):
        data = json.loads(path.read_text())
        if data["tiny"] or not data["rows"]:
            continue
        found = data["summary"]
        lines += [
            "",
            f"**Kernels of the paper's models, counted as the paper does, {where(data)}** ([{path.name}](bench/results/{path.name})). At most {data['candidates']} candidates a card, templates and "
            f"authored kernels together; a card is an operator with its shapes, and counts if it has {data['min_share']:.1%} of the operators' time. It beats eager if the lower bound of its speed-up, confirmed on the "
            f"operator alone, is above 1; an operator, if one of its cards does. The paper reports {found['paper']} kernels.",
            "",
            "| model | cards counted | beat eager | operators | beat eager |",
            "|---|---:|---:|---:|---:|",
        ]
        for name, one in [*found["models"].items(), ("all", found["all"])]:
            open_ = "" if one.get("done", "left" not in data) else " (not all searched)"
            lines.append(
                f"| {name}{open_} | {one['counted']} | **{one['cards_beat_eager']}** | {one['operators']} | **{one['operators_beat_eager']}** |"
            )
    return lines


def trust() -> list[str]:
    """Return the table of what the judge is worth: a row for each result of bench/trust.py, of the commit that it names."""
    lines = [
        "| the judge on | bad kernels killed | kinds not wholly killed | good kernels refused | guard calls wrong, crashed | accepted by chance | commit |",
        "|---|---:|---|---:|---|---:|---|",
    ]
    for path in sorted((ROOT / "bench" / "results").glob("trust-*.json")):
        d = json.loads(path.read_text())
        kinds = [
            f"`{k}` {n['killed']} of {n['bad']}" for k, n in d["by_kind"].items() if n["killed"] < n["bad"]
        ]
        open_kinds = ", ".join(kinds) or f"none of {len(d['by_kind'])}"
        guard = (
            f"{d['wrong']}, {d['crashes']} of {d['guard_calls']:,}" if d["guard_calls"] else "not measured"
        )
        chance = f"{d['aa_accepted']} of {d['aa_trials']:,}" if d["aa_trials"] else "not measured"
        left = f" ({d['left']} files not judged)" if d.get("left") else ""
        lines.append(
            f"| [{where(d)}](bench/results/{path.name}) | {d['killed']} of {d['bad']}{left} | {open_kinds} "
            f"| {len(d['false_rejects'])} of {d['good']} | {guard} | {chance} | {d['commit'][:7]}, {d['made'][:10]} |"
        )
    return lines


def between(text: str, markers: tuple[str, str], lines: list[str]) -> str:
    """Return a text with these lines between two markers."""
    head, rest = text.split(markers[0], 1)
    return f"{head}{markers[0]}\n{chr(10).join(lines)}{markers[1]}{rest.split(markers[1], 1)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    results = found()
    blocks = [*summary(results), ""]
    for data in results:
        blocks += [*operators(data), ""]
    text = README.read_text()
    made = between(between(text, RESULTS, blocks), TRUST, [*trust(), ""])
    for markers, lines in ((OPS, ops()), (CAPTURED, captured())):
        made = between(made, markers, [*lines, ""] if lines else [""])
    if args.check:
        if made != text:
            print(
                "README.md: its result tables are not those of bench/results\nhint: python bench/readme.py",
                file=sys.stderr,
            )
            return 1
        return 0
    README.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
