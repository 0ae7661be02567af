"""What a study came to: one row an operator, the whole model, the tree in short, where things lie. Rows where eager won are rows like any other.

It owns the report's data and its text form; `_html.py` draws the same data as a page. It refuses to measure: evidence comes in as numbers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import _authors
from ._progress import span

SCHEMA = 1
_BUSY = 2.0
_UNSEEN = 0.02


class Report:
    """A report's data with its forms: `print(report)`, `report.to_dict()`, `report.to_html()`, `report.save(path)`."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def to_dict(self) -> dict[str, Any]:
        """Return the data as plain JSON values, in the form of result files plus `study`, `pack`, `store`, `tree` and `outputs`."""
        return json.loads(json.dumps(self._data))  # type: ignore[no-any-return]

    def to_html(self) -> str:
        """Return a page that needs nothing but itself."""
        from ._html import page

        return page(self._data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as `.json`, `.html` or text, by the name's ending, in one step; return the path.

        A file is passed on: it names the pack, but not the folders in which pack and store lie.
        """
        target = Path(path)
        told = Report(shared(self._data))
        text = {".json": lambda: json.dumps(told._data, indent=1) + "\n", ".html": told.to_html}.get(
            target.suffix, lambda: str(told) + "\n"
        )()
        write_whole(target, text)
        return target

    def __str__(self) -> str:
        return text_of(self._data)

    def __repr__(self) -> str:
        d = self._data
        return f"<kernelforge report of {d['name']}: {sum(r['served'] for r in d['rows'])} of {len(d['rows'])} operators served>"

    def _repr_html_(self) -> str:
        from ._html import body

        return body(self._data)


def shared(data: dict[str, Any]) -> dict[str, Any]:
    """Return a report's data without the places of this machine.

    Example:
        >>> shared({"study": "s", "store": "/home/me/kernelforge.db", "pack": "/home/me/packs/s"})
        {'study': 's', 'pack': 's'}
    """
    places = {k: v for k, v in data.items() if k not in ("store", "page")}
    return {**places, "pack": Path(data["pack"]).name} if data.get("pack") else places


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new one, never a half; OSError passes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# ---- rows -------------------------------------------------------------------------------------------------------


def rows_of(
    cards: Iterable[dict[str, Any]],
    plans: Iterable[dict[str, Any]],
    verdicts: dict[str, dict[str, int]],
    reasons: dict[str, str],
) -> list[dict[str, Any]]:
    """Return one row a card, the largest share first.

    Args:
        cards: all cards of the profile (docs/formats.md, `card`).
        plans: plans of the study's pack that are served.
        verdicts: card id to {status: count} of its candidates, for cards that were searched.
        reasons: card id to the words why eager runs, for cards without a plan.
    """
    served: dict[tuple[str, str], dict[str, Any]] = {(p["card"], p["variant"]): p["evidence"] for p in plans}
    rows = []
    for card in sorted(cards, key=lambda c: -c["share"]):
        evidence = [(v, served.get((card["id"], v["id"]))) for v in card["variants"]]
        won = [e for _, e in evidence if e is not None]
        row = {
            "card": card["id"],
            "op": card["overload"],
            "layout": card["layout"],
            "share": card["share"],
            "calls": sum(v["calls"] for v in card["variants"]),
            "variants": len(card["variants"]),
            "variants_served": len(won),
            **_times(evidence),
            "served": bool(won),
            "verdicts": dict(verdicts.get(card["id"], {})),
            "why": "" if won else reasons.get(card["id"], ""),
        }
        rows.append(row)
    return rows


def _times(evidence: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> dict[str, float]:
    """Sum a card's variants over one forward. A variant that eager keeps counts as eager on both sides, so the row's ratio is the card's."""
    eager = ours = slowest = fastest = 0.0
    for variant, e in evidence:
        calls = variant["calls"]
        one = e["eager_us"] if e else variant["eager_us"]
        eager += calls * one
        ours += calls * (one / e["ratio"] if e else one)
        slowest += calls * (one / e["low"] if e else one)
        fastest += calls * (one / e["high"] if e else one)
    if ours <= 0:
        return {"eager_us": eager, "kernelforge_us": eager, "ratio": 1.0, "low": 1.0, "high": 1.0}
    return {
        "eager_us": eager,
        "kernelforge_us": ours,
        "ratio": eager / ours,
        "low": eager / slowest,
        "high": eager / fastest,
    }


# ---- text -------------------------------------------------------------------------------------------------------


def text_of(d: dict[str, Any]) -> str:
    """Return the report as text: plain ASCII columns, readable without colour."""
    lines = [f"kernelforge report: {d['name']}"]
    if d.get("note"):
        lines.append(d["note"])
    lines += [machine_of(d["env"]), ""]
    lines += table(
        ["operator", "layout", "calls", "share", "eager us", "kernelforge us", "at least (median)", ""],
        [_text_row(r) for r in d["rows"]],
        right=(2, 3, 4, 5),
    )
    lines += ["", *_summary(d)]
    return "\n".join(lines)


def machine_of(env: dict[str, Any]) -> str:
    """Return the line that says what a result was measured on."""
    toolchain = env.get("toolchain") or "no compiler"
    if env.get("driver"):
        return f"{env['device']}, driver {env['driver']}, torch {env['torch']}, {toolchain}"
    return f"{env['cpu']}, {env['threads']} threads, torch {env['torch']}, {toolchain}"


def _text_row(r: dict[str, Any]) -> list[str]:
    eager = f"{r['eager_us']:,.0f}"
    head = [r["op"].removeprefix("aten::"), r["layout"], str(r["calls"]), f"{100 * r['share']:.1f} %", eager]
    if not r["served"]:
        return [*head, eager, "1.00", f"eager: {r['why']}" if r["why"] else "eager"]
    part = (
        "" if r["variants_served"] == r["variants"] else f"{r['variants_served']} of {r['variants']} variants"
    )
    return [
        *head,
        f"{r['kernelforge_us']:,.0f}",
        f"{r['low']:.2f} ({r['ratio']:.2f})",
        part,
    ]


def _summary(d: dict[str, Any]) -> list[str]:
    lines = []
    won = [r for r in d["rows"] if r["served"]]
    searched = [r for r in d["rows"] if r["verdicts"]]
    lines.append(
        f"operators: kernelforge serves {len(won)}, eager keeps {len(d['rows']) - len(won)}; {len(searched)} were searched"
    )
    unseen = 1 - sum(r["share"] for r in d["rows"])
    if d["rows"] and unseen >= _UNSEEN:
        lines.append(
            f"{100 * unseen:.0f} % of the operators' time is in others, which eager keeps: `kernelforge profile` lists them"
        )
    model = d["model"]
    if model.get("ratio") is not None:
        lines.append(
            f"whole model: {model['eager_ms']:.1f} -> {model['kernelforge_ms']:.1f} ms, at least {model['low']:.2f}x "
            f"(median {model['ratio']:.2f}x, 95 % interval {model['low']:.2f} to {model['high']:.2f}, {model['samples']} pairs)"
        )
        if model.get("graph_ratio") is not None:
            lines.append(
                f"under CUDA graphs: {model['graph_eager_ms']:.1f} -> {model['graph_kernelforge_ms']:.1f} ms, at least {model['graph_low']:.2f}x "
                f"(median {model['graph_ratio']:.2f}x)"
            )
        elif model.get("graph_why"):
            lines.append(f"under CUDA graphs: not measured ({model['graph_why']})")
    else:
        lines.append(f"whole model: not measured ({model.get('why', 'no plan was served')})")
    lines += _busy(d)
    if d.get("withdrawn"):
        lines.append(f"withdrawn, eager runs: {d['withdrawn']}")
    elif model.get("finding"):
        lines.append(f"{model['finding']}: the interval includes 1; kernelforge.restore() runs eager again")
    outputs = d.get("outputs") or {}
    if outputs:
        lines.append(f"outputs: {outputs['detail']}")
        if chained := outputs.get("accumulation"):
            lines.append(f"accumulation ({chained['level']}): {chained['detail']}")
    lines += controls_of(d.get("controls") or {})
    total = Counter[str]()
    for r in d["rows"]:
        total.update(r["verdicts"])
    if total:
        lines.append(
            f"candidates: {sum(total.values())} judged ({', '.join(f'{n} {s}' for s, n in total.most_common())})"
        )
    lines += _authors.lines(d.get("authors"))
    seconds = d.get("seconds") or {}
    if seconds.get("total") is not None:
        parts = ", ".join(f"{k} {span(v)}" for k, v in seconds.items() if k != "total" and v is not None)
        lines.append(f"time: {span(seconds['total'])} ({parts})")
    budget = d.get("budget") or {}
    if budget.get("out_of_time") and budget.get("max_seconds"):
        lines.append(
            f"the search ended with its {span(budget['max_seconds'])}: the same call with more (--budget-s, max_seconds) goes on from here"
        )
    if d.get("reused"):
        lines.append(f"answered from the finished study, measured {d['made']}; nothing was searched")
    if d.get("review"):
        lines.append(f"winners are proposed, not served: `kernelforge approve {d['study']}` serves them")
    lines += [f"{k}: {d[k]}" for k in ("study", "store", "pack", "page") if d.get(k)]
    return lines


def _busy(d: dict[str, Any]) -> list[str]:
    """Return what is to be said where the host's operators took far longer than the whole model did later: their shares decided what was searched."""
    listed, whole = sum(r["eager_us"] for r in d["rows"]) / 1000, d["model"].get("eager_ms") or 0.0
    if d["env"].get("driver") or not whole or listed < _BUSY * whole:
        return []
    return [
        f"the operators' times add up to {listed:.1f} ms, the model's is {whole:.1f}: the machine was busy while operators were timed, and shares are rough; "
        f"`kernelforge cache clear --study {d['study']}` (or fresh=True) lets the same call begin anew"
    ]


def controls_of(controls: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    """Return the lines about outputs known to be wrong: on how many variants they were tried, and which are right there.

    controls: per operator and variant, how each ended (docs/tolerance.md, T5).
    """
    ends = Counter(end for card in controls.values() for variant in card.values() for end in variant.values())
    if not ends:
        return []
    line = f"negative controls: {ends['fails']} of {sum(ends.values())} fail, on {sum(map(len, controls.values()))} variants"
    if ends["equal"]:
        equal = {
            f"{name} of {op.removeprefix('aten::')}"
            for op, card in controls.items()
            for variant in card.values()
            for name, end in variant.items()
            if end == "equal"
        }
        line += f"; what eager itself gives is no control ({', '.join(sorted(equal))})"
    if ends["passes"]:
        line += f"; {ends['passes']} pass: what was not judged for that is told above"
    return [line]


def table(head: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> list[str]:
    """Return aligned columns; `right` names the columns that are numbers."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: list[str]) -> str:
        return "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()

    # A column without a name holds remarks: a rule as long as the longest would only wrap.
    rules = ["-" * (w if h else 0) for h, w in zip(head, widths, strict=True)]
    return [line(head), "  ".join(rules).rstrip(), *map(line, rows)]
