"""Groups what the hooks captured into cards and variants (docs/formats.md, `card`).

It owns identities and grouping. It refuses to measure and to choose.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._place import Place
from ._roof import Roof, bytes_of

SCHEMA = 1
_LEAST_US = 1e-3  # of a call for which no device time was seen: a card's times are above 0


@dataclass
class Site:
    """One exact call as it ran, from the capture's records: per forward calls and time, children, layout, payload, alignment.

    align: per input slot, the largest power of two that divided every address seen.
    """

    call: dict[str, Any]
    layout: str
    calls: float
    eager_us: float
    children: set[str] = field(default_factory=set)
    payload: list[Any] | None = None
    align: list[int] = field(default_factory=list)
    grad: bool = False


def sites_of(
    with_payload: Iterable[dict[str, Any]], timed: Iterable[dict[str, Any]], forwards: int
) -> list[Site]:
    """Join two captures: one forward that kept payloads, and `forwards` forwards that were timed. In the order of the first capture."""
    sites: dict[str, Site] = {}
    for record in with_payload:
        site = Site(
            record["call"], record["layout"], record["calls"], _median_us(record), set(record["children"])
        )
        site.payload = record["payloads"][0] if record["payloads"] else None
        site.align, site.grad = list(record.get("align", [])), bool(record.get("grad"))
        sites[_text(record["call"])] = site
    for record in timed:
        known = sites.get(_text(record["call"]))
        if known is None:  # a model whose calls differ from forward to forward
            known = sites[_text(record["call"])] = Site(record["call"], record["layout"], 0, 0.0)
        known.calls, known.eager_us = record["calls"] / forwards, _median_us(record)
        known.children |= set(record["children"])
    return list(sites.values())


def _median_us(record: dict[str, Any]) -> float:
    samples = [float(ns) for ns in record["samples_ns"]]
    return (statistics.median(samples) if samples else float(record["total_ns"]) / record["calls"]) / 1e3


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def identity(call: dict[str, Any], layout: str) -> str:
    """Return the card's id: what its variants share is everything but sizes and strides.

    Example:
        >>> a = {"overload": "aten::relu", "outputs": [], "args": [{"name": "self", "kind": "tensor", "dtype": "float32", "sizes": [2, 3], "strides": [3, 1]}]}
        >>> b = {"overload": "aten::relu", "outputs": [], "args": [{"name": "self", "kind": "tensor", "dtype": "float32", "sizes": [5, 7], "strides": [7, 1]}]}
        >>> identity(a, "contiguous") == identity(b, "contiguous") != identity(b, "strided")
        True
    """
    outputs = [{"dtype": o["dtype"], "dim": len(o["sizes"]), "alias": o["alias"]} for o in call["outputs"]]
    words = {
        "overload": call["overload"],
        "layout": layout,
        "args": [_without_sizes(a) for a in call["args"]],
        "outputs": outputs,
    }
    return "c-" + hashlib.sha256(_text(words).encode()).hexdigest()[:8]


def _without_sizes(arg: dict[str, Any]) -> dict[str, Any]:
    if arg["kind"] == "tensors":
        return {**arg, "items": [_without_sizes(item) for item in arg["items"]]}
    if arg["kind"] != "tensor":
        return arg
    return {**{k: v for k, v in arg.items() if k not in ("sizes", "strides")}, "dim": len(arg["sizes"])}


def cards_of(
    sites: Sequence[Site], operator_us: float, threads: int, roof: Roof, place: Place
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], Site]]:
    """Return the cards, the largest share first, and the site of each (card id, variant id).

    operator_us: time of all operators in one forward; shares are parts of it.
    threads: torch's on the host; a device has none, and its cards say 0.
    """
    groups: dict[str, list[Site]] = {}
    for site in sites:
        groups.setdefault(identity(site.call, site.layout), []).append(site)
    cards, where = [], {}
    for card_id, members in groups.items():
        variants = []
        for i, site in enumerate(members):
            size = bytes_of(site.call)
            variants.append(
                {
                    "id": f"v{i}",
                    "call": site.call,
                    "calls": max(1, round(site.calls)),
                    "eager_us": max(site.eager_us, _LEAST_US),
                    "bytes": size,
                    "roof_us": roof.us(size),
                }
                | ({"align": site.align} if site.align else {})
            )
            where[card_id, f"v{i}"] = site
        total = sum(site.calls * site.eager_us for site in members)
        cards.append(
            {
                "schema": SCHEMA,
                "id": card_id,
                "target": place.target,
                "overload": members[0].call["overload"],
                "layout": members[0].layout,
                "threads": 0 if place.cuda else threads,
                "share": min(1.0, total / operator_us) if operator_us > 0 else 0.0,
                "children": sorted(set().union(*(site.children for site in members))),
                "variants": variants,
            }
        )
    return sorted(cards, key=lambda c: -c["share"]), where
