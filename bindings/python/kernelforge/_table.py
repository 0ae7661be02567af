"""A profile as text and as a table for notebooks. It owns the drawing and refuses to compute: every number stands in the profile's data."""

from __future__ import annotations

from html import escape
from typing import Any

from ._nvml import NO_TROUBLE
from ._report import table as columns
from .errors import UsageFault

SORT = ("share", "calls", "eager_us", "roof_us", "ceiling", "variants", "op")
_HEAD = ("operator", "dtype", "layout", "variants", "calls", "share", "eager us", "roof us", "ceiling", "")
_RIGHT = (3, 4, 5, 6, 7, 8)


def _rows(data: dict[str, Any], sort_by: str, row_limit: int | None) -> list[dict[str, Any]]:
    if sort_by not in SORT:
        raise UsageFault(f"sort a profile by `{sort_by}`: no such column (expected {', '.join(SORT)})")
    if sort_by == "op":
        rows = sorted(data["rows"], key=lambda r: r["op"])
    else:
        rows = sorted(data["rows"], key=lambda r: -(r[sort_by] or 0.0))
    return rows[: max(row_limit, 0)] if row_limit is not None else rows


def _note(row: dict[str, Any]) -> str:
    if not row["card"]:
        return "left to eager by its rules" if row["hooked"] else "not hooked"
    return "vendor" if row["vendor"] else ""


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["op"].removeprefix("aten::"),
        row["dtype"],
        row["layout"],
        str(row["variants"] or ""),
        f"{row['calls']:g}",
        f"{100 * row['share']:.1f} %",
        f"{row['eager_us']:,.0f}",
        f"{row['roof_us']:,.0f}" if row["card"] and not row["vendor"] else "",
        f"{row['ceiling']:.2f}x" if row["ceiling"] is not None else "",
        _note(row),
    ]


def _summary(data: dict[str, Any], shown: int) -> list[str]:
    hidden = len(data["rows"]) - shown
    lines = [f"{hidden} rows are not shown"] if hidden else []
    return [
        *lines,
        f"one forward {data['forward_ms']:.2f} ms, of which operators {data['operator_ms']:.2f} ms ({100 * data['attributed']:.0f} % attributed)",
        *_device(data),
        *_busy(data),
        f"times are for one forward; roof: the time to copy the same bytes; ceiling: the model's speed-up with this operator at its roof, {data['ceiling']:.2f}x with all of them",
    ]


_BUSY = 1.35  # watching calls of a microsecond costs a fifth of them


def _busy(data: dict[str, Any]) -> list[str]:
    """Return what is to be said where the host's operators took longer than whole forwards did before."""
    if data.get("timed_by") != "clock" or data["operator_ms"] < _BUSY * data["forward_ms"]:
        return []
    return [
        "operators took longer than the forward: the machine was busy, and shares are rough; profile again when it is idle"
    ]


_TIMED_BY = {
    "cupti": "device times from the profiler's kernel records",
    "events": "each call timed alone, by events: the profiler saw no kernels",
}


def _device(data: dict[str, Any]) -> list[str]:
    """Return what is to be said of a device: who took the times, and its state afterwards."""
    if data.get("timed_by") not in _TIMED_BY:
        return []
    state = (data.get("telemetry") or {}).get("after") or {}
    if "why" in state or not state:
        return [f"{_TIMED_BY[data['timed_by']]}; {state.get('why', 'no telemetry')}"]
    throttled = [w for w in state["throttle"] or [] if w not in NO_TROUBLE]
    parts = [
        *([f"{state['clocks_sm_mhz']} MHz"] if state["clocks_sm_mhz"] is not None else []),
        *([f"{state['power_w']:.0f} W"] if state["power_w"] is not None else []),
        *([f"{state['temperature_c']} C"] if state["temperature_c"] is not None else []),
        f"throttled by {', '.join(throttled)}" if throttled else "not throttled",
    ]
    return [f"{_TIMED_BY[data['timed_by']]}; {', '.join(parts)}"]


def text(data: dict[str, Any], sort_by: str, row_limit: int | None) -> str:
    """Return a profile's data as aligned columns."""
    rows = _rows(data, sort_by, row_limit)
    lines = columns(list(_HEAD), [_cells(r) for r in rows], right=_RIGHT)
    return "\n".join([f"kernelforge profile: {data['name']}", "", *lines, "", *_summary(data, len(rows))])


_STYLE = (
    ".kfp{font:13px/1.5 system-ui,sans-serif;border-collapse:collapse}.kfp th,.kfp td{padding:.15em .6em;text-align:left;border-bottom:1px solid #8884}"
    ".kfp .n{text-align:right;font-variant-numeric:tabular-nums}.kfp .bar{width:8em}.kfp rect{fill:#2a7f62}"
)


def html(data: dict[str, Any]) -> str:
    """Return a profile's data as a table that needs nothing but itself."""
    rows = _rows(data, "share", None)
    head = "".join(f"<th{' class=n' if i in _RIGHT else ''}>{escape(t)}</th>" for i, t in enumerate(_HEAD))
    body = "".join(_html_row(r) for r in rows)
    notes = "".join(f"<div>{escape(line)}</div>" for line in _summary(data, len(rows)))
    return f"<style>{_STYLE}</style><table class=kfp><caption>{escape(data['name'])}</caption><thead><tr>{head}<th></th></tr></thead><tbody>{body}</tbody></table>{notes}"


def _html_row(row: dict[str, Any]) -> str:
    cells = "".join(
        f"<td{' class=n' if i in _RIGHT else ''}>{escape(c)}</td>" for i, c in enumerate(_cells(row))
    )
    width = 100 * row["share"]
    bar = f'<svg class=bar viewBox="0 0 100 8" role="img" aria-label="share {width:.1f} %"><rect width="{width:.2f}" height="8"/></svg>'
    return f"<tr>{cells}<td>{bar}</td></tr>"
