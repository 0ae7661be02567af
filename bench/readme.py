"""Writes the result table of the README from the result files, so that no figure there is typed by hand.

python bench/readme.py            rewrite the block between the markers
python bench/readme.py --check    fail if it differs (part of `make check`)
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- results: made by bench/readme.py -->", "<!-- end of results -->"


ROWS = 7  # operators shown of each model


def found() -> list[dict[str, Any]]:
    """Return the whole-model results that are committed: those of GPUs first, the demo on the host last."""
    folder = ROOT / "bench" / "results"
    names = [
        *sorted(folder.glob("vae-*.json")),
        *sorted(folder.glob("resnet50-*.json")),
        folder / "demo-host.json",
    ]
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    results = found()
    blocks = [*summary(results), ""]
    for data in results:
        blocks += [*operators(data), ""]
    text = README.read_text()
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    made = f"{head}{BEGIN}\n{chr(10).join(blocks)}{END}{tail}"
    if args.check:
        if made != text:
            print(
                "README.md: its result table is not that of bench/results\nhint: python bench/readme.py",
                file=sys.stderr,
            )
            return 1
        return 0
    README.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
