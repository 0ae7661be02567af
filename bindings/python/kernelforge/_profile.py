"""Where a model's time goes: every operator that ran, its share, and what a faster one could gain at most.

It owns the forwards that are watched, in the grad mode that the caller is in, with eager serving. It refuses to choose and to search.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from . import _device_time, _ext, _roof, _table, _turns
from ._amdahl import amdahl_speedup
from ._cards import Site, cards_of, sites_of
from ._device_time import Watched
from ._inputs import device_of, forward_of, name_of
from ._place import HOST, Place
from ._state import kept
from .errors import ModelFault, UsageFault

_WARM = 2
_SECONDS = 2.0  # for each of the three watched passes, as long as three forwards fit
_MOST, _LEAST = 20, 3
_PAYLOAD_PART = 4  # at most this part of the free memory holds captured arguments


class Profile:
    """What `profile` found. `print(p.table())`, `p.to_dict()`, `p.cards`, and an HTML table in notebooks.

    Attributes:
        cards: cards as in docs/formats.md, the largest share first.
        rows: one row an operator, those that are not hooked included; see `table`.
        forward_ms: median time of a forward, nothing watched.
        operator_ms: time of all operators in a forward.
        attributed: host: part of a watched forward that was spent in named operators; the rest is Python and torch's own bookkeeping. CUDA: part of
            the device's time whose operator is known.
        hooked: part of the operators' time that belongs to cards.
        timed_by: `clock` (host), `cupti` (the profiler's kernel records) or `events` (each call alone, where there are none).
        telemetry: CUDA: {"before", "after"}: clocks, power, temperature, throttling and memory; else None.
        place: where the model ran.
        ceiling: speed-up of the model if every hooked operator ran at its roof, vendor operators left as they are.
    """

    def __init__(
        self,
        name: str,
        forward_ms: float,
        attributed: float,
        cards: list[dict[str, Any]],
        rows: list[dict[str, Any]],
        sites: dict[tuple[str, str], Site],
        watched: Watched | None = None,
        place: Place = HOST,
    ) -> None:
        self.name, self.forward_ms, self.attributed, self.place = name, forward_ms, attributed, place
        self.timed_by = watched.timed_by if watched else "clock"
        self.telemetry = watched.telemetry if watched else None
        self.cards, self.rows = cards, rows
        self.operator_ms = sum(r["eager_us"] for r in rows) / 1e3
        self.hooked = sum(r["share"] for r in rows if r["card"])
        saved = sum(
            r["eager_us"] - r["roof_us"]
            for r in rows
            if r["ceiling"] is not None and r["roof_us"] < r["eager_us"]
        )
        # On a disturbed machine the operators' medians may add up to more than a forward's: the longer of the two is the whole.
        whole = max(1e3 * forward_ms, sum(r["eager_us"] for r in rows))
        share = saved / whole if whole > 0 else 0.0
        self.ceiling = amdahl_speedup(share)
        self._sites = sites

    def payload(self, card: str, variant: str) -> list[Any] | None:
        """Return the arguments captured for a variant, in schema order, or None where memory allowed none.

        Raises:
            KeyError: no such card or variant.
        """
        return self._sites[card, variant].payload

    def align(self, card: str, variant: str) -> list[int]:
        """Return per input slot the largest power of two that divided every address seen, in bytes."""
        return self._sites[card, variant].align

    def forget_payloads(self, but: Collection[str]) -> None:
        """Let go of the captured arguments of all cards but these: on a device they take room that a search needs."""
        for (card, _), site in self._sites.items():
            if card not in but:
                site.payload = None

    def table(self, sort_by: str = "share", row_limit: int | None = None) -> str:
        """Return the rows as text.

        Args:
            sort_by: a column: `share`, `calls`, `eager_us`, `roof_us`, `ceiling`, `variants` or `op`.
            row_limit: at most so many rows; None gives all.

        Raises:
            UsageFault: no such column.
        """
        return _table.text(self.to_dict(), sort_by, row_limit)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "schema": 1,
            "name": self.name,
            "forward_ms": self.forward_ms,
            "operator_ms": self.operator_ms,
            "attributed": self.attributed,
            "hooked": self.hooked,
            "target": self.place.target,
            "timed_by": self.timed_by,
            "telemetry": self.telemetry,
            "ceiling": self.ceiling,
            "rows": self.rows,
            "cards": self.cards,
        }

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<kernelforge profile of {self.name}: {len(self.cards)} cards, {self.forward_ms:.1f} ms a forward>"

    def _repr_html_(self) -> str:
        return _table.html(self.to_dict())


def profile(model: Any, inputs: Any, *, forwards: int | None = None) -> Profile:
    """Run the model and return where its time goes.

    Args:
        model: a module or any function; buffers and random state are put back afterwards.
        inputs: a tensor, a tuple of arguments, a dict of keyword arguments, ((arguments), {keywords}), or a function that returns one of these
            for each forward.
        forwards: forwards of each timed pass; None takes as many as fit two seconds, 3 to 20.

    Raises:
        UsageFault: no inputs, or a model that cannot be called.
        ModelFault: the model raised (the cause is its own exception), or model and inputs are on several devices.
        EnvironmentFault: no torch, no extension, or a device that no target serves.

    Example:
        >>> with torch.no_grad():
        ...     p = kernelforge.profile(model, x)
        >>> print(p.table(row_limit=10))

    The calls run in the grad mode of the caller: autograd, no_grad and inference_mode reach different operators.
    """
    if forwards is not None and forwards < 1:
        raise UsageFault(f"profile with forwards={forwards}: nothing would run (expected 1 or more)")
    forward = _named(forward_of(model, inputs))
    place = device_of(model, inputs)
    extension = _ext.load()
    with (
        _ext.measuring(),
        _eager(extension),
        place.current(),
        kept(model, inputs, place),
    ):
        with _turns.beside(
            place
        ):  # what takes seconds in a new process keeps nobody from timing longer than it must
            for _ in range(_WARM):
                forward()
            with_payload = _captured(extension, forward, 1, place, payloads=1)
            if place.cuda:
                _device_time.begin(place)
        with _turns.alone(place):
            forward_ms, count = _time(forward, forwards, place)
            watch = _device_time.watch if place.cuda else _watch
            watched = watch(extension, forward, count, place)
            roof = _roof.measure(place)
    sites = sites_of(with_payload, watched.records, watched.forwards)
    templates = {o["overload"] for o in extension.op_table() if o["template"]}
    outside = _outside(watched, sites)
    hooked_us = sum(s.calls * s.eager_us for s in sites)
    operator_us = hooked_us + sum(r["eager_us"] for r in outside)
    import torch

    cards, where = cards_of(sites, operator_us, torch.get_num_threads(), roof, place)
    rows = [_row(c, where, c["overload"] not in templates) for c in cards]
    for row in outside:
        row["share"] = row["eager_us"] / operator_us if operator_us > 0 else 0.0
    rows = sorted([*rows, *outside], key=lambda r: -r["share"])
    return Profile(
        name_of(model), forward_ms, watched.attributed, cards, rows, where, watched=watched, place=place
    )


def _named(forward: Callable[[], Any]) -> Callable[[], Any]:
    """Say at which forward a model raised: one that runs twice and fails then keeps state of its own."""
    number = itertools.count(1)

    def counted() -> Any:
        n = next(number)
        try:
            return forward()
        except ModelFault as e:
            raise ModelFault(f"profile, forward {n}: {e.text}", hint=e.hint) from e.__cause__

    return counted


@contextlib.contextmanager
def _eager(extension: Any) -> Iterator[None]:
    """Let eager serve while the model is watched; capture works all the same."""
    was = extension.enabled()
    extension.set_enabled(False)
    try:
        yield
    finally:
        extension.set_enabled(was)


def _time(forward: Callable[[], Any], forwards: int | None, place: Place) -> tuple[float, int]:
    """Return the median time of a forward in milliseconds, and how many forwards a watched pass takes."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < (forwards or _LEAST) or (
        forwards is None and len(times) < _MOST and time.perf_counter() - begin < _SECONDS
    ):
        times.append(place.forward_ms(forward))
    return statistics.median(times), len(times)


def _captured(
    extension: Any, forward: Callable[[], Any], count: int, place: Place, payloads: int
) -> list[dict[str, Any]]:
    extension.capture_begin(payloads, place.free_bytes() // _PAYLOAD_PART if payloads else 0)
    try:
        for _ in range(count):
            forward()
    finally:
        records: list[dict[str, Any]] = extension.capture_end()
    return records


def _watch(extension: Any, forward: Callable[[], Any], count: int, place: Place) -> Watched:
    """Run forwards twice: under capture, and with every operator watched, hooked or not; return what took how long on the host."""
    records = _captured(extension, forward, count, place, payloads=0)
    extension.discovery_begin()
    begin = time.perf_counter_ns()
    try:
        for _ in range(count):
            forward()
    finally:
        watched_ns = time.perf_counter_ns() - begin
        found: list[dict[str, Any]] = extension.discovery_end()
    return Watched(records, found, sum(f["self_ns"] for f in found) / watched_ns, "clock", forwards=count)


def _outside(watched: Watched, sites: list[Site]) -> list[dict[str, Any]]:
    """Return rows for the operators that no card stands for: not hooked, or hooked and left to eager by their rules."""
    known: set[str] = set()
    if watched.timed_by == "clock":  # there every operator was seen, those that a card stands for as well
        known = {s.call["overload"] for s in sites}.union(*(s.children for s in sites))
    rows = []
    for entry in watched.rest:
        if entry["name"] in known:
            continue
        us = entry["self_ns"] / 1e3 / watched.forwards
        rows.append(
            {
                "card": None,
                "op": entry["name"],
                "layout": "",
                "dtype": "",
                "variants": 0,
                "calls": entry["calls"] / watched.forwards,
                "share": 0.0,
                "eager_us": us,
                "roof_us": us,
                "ceiling": None,
                "vendor": False,
                "hooked": entry["hooked"],
                "children": [],
            }
        )
    return rows


def _row(card: dict[str, Any], where: dict[tuple[str, str], Site], vendor: bool) -> dict[str, Any]:
    sites = [(v, where[card["id"], v["id"]]) for v in card["variants"]]
    eager = sum(s.calls * s.eager_us for _, s in sites)
    roof = sum(s.calls * v["roof_us"] for v, s in sites)
    dtypes = [a["dtype"] for a in sites[0][0]["call"]["args"] if a["kind"] == "tensor"]
    dtypes += [i["dtype"] for a in sites[0][0]["call"]["args"] if a["kind"] == "tensors" for i in a["items"]]
    return {
        "card": card["id"],
        "op": card["overload"],
        "layout": card["layout"],
        "dtype": dtypes[0] if dtypes else "",
        "variants": len(sites),
        "calls": sum(s.calls for _, s in sites),
        "share": card["share"],
        "eager_us": eager,
        "roof_us": roof,
        # A vendor operator computes: the time to move its bytes says nothing about it.
        "ceiling": None
        if vendor
        else amdahl_speedup(card["share"], max(1.0, eager / roof) if roof > 0 else 1.0),
        "vendor": vendor,
        "hooked": True,
        "children": card["children"],
    }
