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


def demo_block(data: dict[str, Any]) -> list[str]:
    """Return the table of one whole-model result file (demo-host.json, resnet50-h200.json, ...)."""
    env, model = data["env"], data["model"]
    lines = [
        f"**{data.get('title', data['name'])}** on {env['device']}, {env['threads']} threads, torch {env['torch']}, {data['made'][:10]}. "
        f"Remake it: `{data['command']}`.",
        "",
        "| operator | share of eager's time | eager µs a forward | kernelforge µs | kernel speed-up (at least) | served |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in sorted(data["rows"], key=lambda r: -r["share"])[:8]:
        served = "yes" if row["served"] else "no: eager kept"
        lines.append(
            f"| `{row['op']}` | {row['share']:.1%} | {row['eager_us']:,.0f} | {row['kernelforge_us']:,.0f} | {row['ratio']:.2f}× ({row['low']:.2f}×) | {served} |"
        )
    lines += [
        "",
        f"**Whole model: {model['eager_ms']:.1f} → {model['kernelforge_ms']:.1f} ms, {model['ratio']:.2f}×** "
        f"(at least {model['low']:.2f}×; {model['samples']} interleaved pairs).",
    ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    blocks: list[str] = []
    for name in ("demo-host.json",):
        path = ROOT / "bench" / "results" / name
        if path.exists():
            blocks += [*demo_block(json.loads(path.read_text())), ""]
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
