"""A report as one page: its own style, no script, no font, no address. Colour never carries meaning alone; it follows the reader's light or dark choice.

It owns the drawing. It refuses to compute: every number stands in the report's data.
"""

from __future__ import annotations

import functools
from html import escape
from pathlib import Path
from typing import Any

from . import _authors
from ._progress import span
from ._report import machine_of


def page(d: dict[str, Any]) -> str:
    """Return the whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<title>{_e(d["name"])}: kernelforge report</title></head><body style="margin:0">{body(d)}</body></html>\n'
    )


def body(d: dict[str, Any]) -> str:
    """Return the page's content with its style, for notebooks."""
    parts = [
        _head(d),
        _cards(d),
        _shares(d["rows"]),
        _operators(d["rows"]),
        _trees(d.get("tree") or []),
        _sources(d.get("authors")),
        _where(d),
    ]
    return f'<style>{_style()}</style><main class="kf">{"".join(parts)}</main>'


@functools.cache
def _style() -> str:
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


def _e(value: Any) -> str:
    return escape(str(value))


def _head(d: dict[str, Any]) -> str:
    machine = machine_of(d["env"])
    note = f"{_e(d['note'])}. " if d.get("note") else ""
    return f'<h1>{_e(d["name"])}</h1><p class="soft">{note}{_e(machine)}. Made {_e(d["made"])}.</p>'


def _cards(d: dict[str, Any]) -> str:
    model, rows = d["model"], d["rows"]
    cards = []
    if model.get("ratio") is not None:
        cards.append(
            (
                f"≥ {model['low']:.2f}x",
                f"whole model, median {model['ratio']:.2f}x, 95 % interval {model['low']:.2f} to {model['high']:.2f}, {model['samples']} pairs",
            )
        )
        cards.append(
            (
                f"{model['eager_ms']:.1f} → {model['kernelforge_ms']:.1f} ms",
                "one forward, eager → kernelforge",
            )
        )
    else:
        cards.append(("not measured", f"whole model: {model.get('why', 'no plan was served')}"))
    if d.get("withdrawn"):
        cards.append(("withdrawn", f"eager runs: {d['withdrawn']}"))
    elif model.get("finding"):
        cards.append(("no gain", f"{model['finding']}: the interval includes 1"))
    won = sum(r["served"] for r in rows)
    cards.append((f"{won} of {len(rows)}", "operators served; eager keeps the others"))
    judged = sum(sum(r["verdicts"].values()) for r in rows)
    if judged:
        cards.append((f"{judged}", "candidates judged"))
    seconds = d.get("seconds") or {}
    if seconds.get("total") is not None:
        cards.append((span(seconds["total"]), "from profile to result"))
    outputs = d.get("outputs") or {}
    if outputs:
        word = {"ok": "equal", "not_compared": "not compared"}.get(outputs["status"], "differ")
        cards.append((word, f"outputs: {outputs['detail']}"))
    return (
        '<div class="cards">'
        + "".join(f'<div><b>{_e(big)}</b><span class="soft">{_e(small)}</span></div>' for big, small in cards)
        + "</div>"
    )


def _shares(rows: list[dict[str, Any]]) -> str:
    x, bars = 0.0, []
    for r in rows:
        width = 1000 * r["share"]
        kind = "served" if r["served"] else "eager"
        name = f"{r['op']}: {100 * r['share']:.1f} % of the operators' time, {'served' if r['served'] else 'eager'}"
        bars.append(
            f'<rect class="{kind} gap" x="{x:.2f}" y="0" width="{width:.2f}" height="30"><title>{_e(name)}</title></rect>'
        )
        x += width
    drawing = f'<svg viewBox="0 0 1000 30" preserveAspectRatio="none" role="img" aria-label="share of each operator">{"".join(bars)}</svg>'
    return f'<h2>Where eager spends its time</h2>{drawing}<p class="soft">Green operators are served by kernelforge, grey ones run as eager.</p>'


def _operators(rows: list[dict[str, Any]]) -> str:
    top = max([r["high"] for r in rows] + [1.5])
    head = _headings(
        ("operator", 0), ("layout", 0), ("calls", 1), ("share", 1), ("eager µs", 1), ("kernelforge µs", 1), ("at least", 1), ("median and interval", 0), ("candidates", 0), ("served", 0)
    )  # fmt: skip
    return f'<h2>Operators</h2><div class="wide"><table><thead>{head}</thead><tbody>{"".join(_row(r, top) for r in rows)}</tbody></table></div>'


def _row(r: dict[str, Any], top: float) -> str:
    verdicts = ", ".join(f"{n} {s}" for s, n in sorted(r["verdicts"].items(), key=lambda i: -i[1])) or "none"
    if r["served"]:
        served = f'<span class="win">{r["variants_served"]} of {r["variants"]} variants</span>'
    else:
        served = f'<span class="keep">eager{": " + _e(r["why"]) if r["why"] else ""}</span>'
    interval = (
        f"{r['ratio']:.2f}x, {r['low']:.2f} to {r['high']:.2f}{_whisker(r, top)}" if r["served"] else ""
    )
    return _cells(
        (f"<code>{_e(r['op'])}</code>", 0), (_e(r["layout"]), 0), (r["calls"], 1), (f"{100 * r['share']:.1f} %", 1), (f"{r['eager_us']:,.0f}", 1),
        (f"{r['kernelforge_us']:,.0f}", 1), (f"{r['low']:.2f}x", 1), (interval, 0), (_e(verdicts), 0), (served, 0),
    )  # fmt: skip


def _whisker(r: dict[str, Any], top: float) -> str:
    def x(v: float) -> float:
        return round(100 * min(v, top) / top, 2)

    return (
        f'<svg viewBox="0 0 100 12" style="height:12px;min-width:7rem" role="img" aria-label="interval {r["low"]:.2f} to {r["high"]:.2f}">'
        f'<line class="one" x1="{x(1)}" x2="{x(1)}" y1="0" y2="12"/><line class="band" x1="{x(r["low"])}" x2="{x(r["high"])}" y1="6" y2="6"/>'
        f'<circle class="dot" cx="{x(r["ratio"])}" cy="6" r="3"/></svg>'
    )


def _trees(trees: list[dict[str, Any]]) -> str:
    if not trees:
        return ""
    parts = []
    for t in trees:
        verdicts = ", ".join(f"{n} {s}" for s, n in sorted(t["verdicts"].items(), key=lambda i: -i[1]))
        best = f"best cost {t['best']:.3f} of eager" if t.get("best") else "no candidate was faster"
        steps = "".join(
            f"<li>node {_e(s['node'])}, {_e(s['family'])}: {_e(s['change'] or 'start')} ({_end(s)})</li>"
            for s in t["path"]
        )
        path = f"<p>From the root to the best node:</p><ol>{steps}</ol>" if steps else ""
        parts.append(
            f'<details><summary><code>{_e(t["op"])}</code> <span class="soft">{t["nodes"]} nodes: {_e(verdicts)}; {best}</span></summary>{path}</details>'
        )
    return f"<h2>Search</h2>{''.join(parts)}"


def _end(step: dict[str, Any]) -> str:
    return f"cost {step['cost']:.3f}" if step.get("cost") else _e(step["status"])


def _sources(authors: dict[str, Any] | None) -> str:
    if not authors:
        return ""
    head = _headings(
        ("source", 0), ("judged", 1), ("right at once", 1), ("after repair", 1), ("unfinished", 1), ("costs down by", 1), ("search", 1), ("calls", 1), ("tokens in", 1), ("tokens out", 1), ("price", 1)
    )  # fmt: skip
    rows = "".join(_cells(
        (f"<code>{_e(s['author'])}</code>", 0), (s["judged"], 1), (s["valid"], 1), (s["valid"] + s["mended"], 1), (s["unfinished"], 1), (f"{s['gain']:.2f}x", 1),
        (span(s["seconds"]), 1), (s["calls"], 1), (f"{s['tokens_in']:,}", 1), (f"{s['tokens_out']:,}", 1), (_e(_authors.money(s["usd"])), 1),
    ) for s in authors["sources"])  # fmt: skip
    told = "".join(f"<li>{_e(line)}</li>" for line in [*_authors.yields(authors), *_authors.stops(authors)])
    return (
        f'<h2>Who wrote the candidates</h2><div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        + (f"<ul>{told}</ul>" if told else "")
    )


def _headings(*cells: tuple[str, int]) -> str:
    return "<tr>" + "".join(f"<th{' class=n' if n else ''}>{c}</th>" for c, n in cells) + "</tr>"


def _cells(*cells: tuple[Any, int]) -> str:
    """Return a row of a table. cells: content, and whether it is a number."""
    return "<tr>" + "".join(f"<td{' class=n' if n else ''}>{c}</td>" for c, n in cells) + "</tr>"


def _where(d: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><th>{k}</th><td><code>{_e(d[k])}</code></td></tr>"
        for k in ("study", "store", "pack")
        if d.get(k)
    )
    review = (
        f"<p>Winners are proposed, not served: <code>kernelforge approve {_e(d['study'])}</code> serves them.</p>"
        if d.get("review")
        else ""
    )
    return f'<h2>Where things lie</h2>{review}<table style="width:auto">{rows}</table>'
