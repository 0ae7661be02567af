"""Draws a result of bench/ops.py as SVG: how far every call is from a copy of its bytes, in eager, under Inductor and with kernelforge.

One line a case, its families together, the worst eager ones first; the axis is time over the copy's, so that the left edge is as far as one can go. It
reads nothing but the result and writes no other format.
"""

from __future__ import annotations

import json
import math
import statistics
from html import escape
from pathlib import Path
from typing import Any

from ops_cases import family, geomean
from ops_goals import counted, over

Row = dict[str, Any]
WIDTH, LEFT, RIGHT, TOP, LINE, GAP = 960, 330, 64, 132, 13, 9
LEAST = 0.8  # of the axis
TICKS = (1, 2, 3, 5, 10, 20, 50, 100)
STYLE = """
 text { font: 11px ui-sans-serif, system-ui, sans-serif; fill: #57606a } .head { font-size: 19px; font-weight: 600; fill: #1f2328 } .sub { font-size: 13px }
 .family { font-weight: 600; fill: #1f2328; text-anchor: end } .name { text-anchor: end; font-size: 10px } .tick { text-anchor: middle }
 .gain { font-size: 10px; fill: #1f2328 } .grid { stroke: #d0d7de; stroke-width: 1 } .copy { stroke: #1f2328; stroke-width: 1.5 }
 .span { stroke: #d0d7de; stroke-width: 3; stroke-linecap: round } .eager { fill: #8c959f } .inductor { fill: none; stroke: #bc4c00; stroke-width: 1.4 }
 .ours { fill: #0969da } .kept { fill: #ffffff; stroke: #0969da; stroke-width: 1.6 } .paper { fill: #ffffff }
 @media (prefers-color-scheme: dark) {
  text { fill: #9198a1 } .head, .family, .gain { fill: #f0f6fc } .grid, .span { stroke: #3d444d } .copy { stroke: #f0f6fc } .eager { fill: #656c76 }
  .inductor { stroke: #f0883e } .ours { fill: #4493f8 } .kept { fill: #0d1117; stroke: #4493f8 } .paper { fill: #0d1117 } }
"""


def label(row: Row) -> str:
    """Return what tells a row from the others of its family.

    Example:
        >>> label({"case": "softmax 4096x8192 bfloat16", "layout": "contiguous", "dtype": "bfloat16"})
        '4096x8192, bf16'
    """
    short = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}[row["dtype"]]
    sizes = [w for w in row["case"].split() if w[0].isdigit() and "x" in w]
    layout = [] if row["layout"] == "contiguous" else [row["layout"]]
    return ", ".join([*sizes, short, *layout])


def best_inductor(row: Row) -> float | None:
    """Return the faster of Inductor's two times."""
    times = [row[k] for k in ("inductor_us", "autotune_us") if row.get(k)]
    return min(times, default=None)


def families(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows by family, those that eager serves worst first, and within a family likewise."""

    def distance(row: Row) -> float:
        return float(row["eager_us"] / row["copy_us"])

    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(family(row["case"]).removesuffix(" channels_last"), []).append(row)
    for members in found.values():
        members.sort(key=distance, reverse=True)
    return sorted(found.items(), key=lambda f: -statistics.fmean(math.log(distance(r)) for r in f[1]))


def svg(result: dict[str, Any]) -> str:
    """Return the drawing of a result. Without rows it says so."""
    rows = [r for r in counted([r for r in result["rows"] if r["eager_us"]]) if r["copy_us"]]
    groups = families(rows)
    height = TOP + len(rows) * LINE + len(groups) * GAP + 58
    right = max((r["eager_us"] / r["copy_us"] for r in rows), default=2.0) * 1.12

    def x(times: float) -> float:
        part = math.log(max(times, LEAST) / LEAST) / math.log(max(right, 2.0) / LEAST)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(headline(result, rows))}">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="head" x="24" y="34">{escape(headline(result, rows))}</text>',
        f'<text class="sub" x="24" y="56">{escape(where(result))}</text>',
        *_legend(),
    ]
    bottom = height - 40
    for tick in (t for t in TICKS if t < right):
        line = "copy" if tick == 1 else "grid"
        parts.append(
            f'<line class="{line}" x1="{x(tick)}" y1="{TOP - 14}" x2="{x(tick)}" y2="{bottom}"/>'
            f'<text class="tick" x="{x(tick)}" y="{TOP - 20}">{"copy" if tick == 1 else f"{tick}×"}</text>'
        )
    y = float(TOP)
    for name, members in groups:
        y += GAP
        for number, row in enumerate(members):
            y += LINE
            first = f'<text class="family" x="{LEFT - 196}" y="{y}">{escape(name)}</text>'
            parts.append((first if number == 0 else "") + _line(row, x, y))
    foot = "time over the time of a copy of the same bytes, cold cache, logarithmic; figures: eager / kernelforge, lower bound"
    parts.append(f'<text x="{LEFT}" y="{height - 16}">{foot}</text></svg>')
    return "\n".join(parts) + "\n"


def _legend() -> list[str]:
    marks = [
        ('<circle class="eager" cx="{x}" cy="80" r="4"/>', "eager"),
        ('<circle class="inductor" cx="{x}" cy="80" r="3.6"/>', "torch.compile, the better of its two modes"),
        ('<circle class="ours" cx="{x}" cy="80" r="4.4"/>', "kernelforge"),
        ('<circle class="kept" cx="{x}" cy="80" r="4"/>', "eager kept"),
    ]
    parts, at = [], 28
    for mark, words in marks:
        parts.append(mark.format(x=at) + f'<text x="{at + 10}" y="84">{words}</text>')
        at += 36 + round(5.7 * len(words))
    return parts


def _line(row: Row, x: Any, y: float) -> str:
    copy, at = row["copy_us"], y - 4
    eager, ours, inductor = row["eager_us"] / copy, row["kernelforge_us"] / copy, best_inductor(row)
    title = f"{row['case']}: eager {row['eager_us']:.1f} us, kernelforge {row['kernelforge_us']:.1f} us, copy {copy:.1f} us"
    parts = [
        f"<g><title>{escape(title)}</title>",
        f'<text class="name" x="{LEFT - 8}" y="{y}">{escape(label(row))}</text>',
        f'<line class="span" x1="{x(ours)}" y1="{at}" x2="{x(eager)}" y2="{at}"/>',
    ]
    if row["served"]:
        parts.append(f'<circle class="eager" cx="{x(eager)}" cy="{at}" r="4"/>')
    if inductor:
        parts.append(f'<circle class="inductor" cx="{x(inductor / copy)}" cy="{at}" r="3.6"/>')
    kind = "ours" if row["served"] else "kept"
    parts.append(f'<circle class="{kind}" cx="{x(ours)}" cy="{at}" r="4.2"/>')
    if row["served"]:
        parts.append(
            f'<text class="gain" x="{x(max(eager, ours, (inductor or 0.0) / copy)) + 9}" y="{y}">{row["low"]:.2f}×</text>'
        )
    return "".join([*parts, "</g>"])


def headline(result: dict[str, Any], rows: list[Row]) -> str:
    """Return what the rows come to, in a sentence."""
    ours, eager = (geomean(over(rows, f"{w}_us", "copy_us")) for w in ("kernelforge", "eager"))
    if not ours or not eager:
        return "Not measured yet"
    return f"{len(rows)} operators: kernelforge {ours:.2f}×, eager {eager:.2f}× the time of a copy"


def where(result: dict[str, Any]) -> str:
    env, made = result["env"], max((r["made"] for r in result["rows"]), default=result["made"])
    threads = "" if env.get("driver") else f", {env.get('threads')} threads"
    return f"{env['device']}{threads}, torch {env['torch']}, measured until {made[:10]}; geometric means"


def write(path: Path) -> Path:
    """Draw a result file beside it; return the drawing's path."""
    from kernelforge._report import write_whole

    drawn = path.with_suffix(".svg")
    write_whole(drawn, svg(json.loads(path.read_text())))
    return drawn
