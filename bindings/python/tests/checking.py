"""Judges templates on a CUDA device by the referee's own rules: the same inputs, bounds and comparisons as in a search, through the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelforge import _ext
from kernelforge._place import Place
from kernelforge.referee.bounds import compare, same_bits
from kernelforge.referee.cases import Variant, bounds_of
from proving import Site
from rendering import captured, card_of, compile_all, onto, plan_of, render, served

Row = dict[str, Any]


class Refused(Exception):
    """Eager itself refuses a call on this device, so there is nothing to be equal to."""


def capture_all(overload: str, variants: list[list[Any]], device: str) -> list[dict[str, Any]]:
    """Return the `call` JSON of each variant, as eager runs it on the device.

    Raises:
        Refused: eager does not take one of them there.
    """
    with torch.inference_mode():
        try:
            return [captured(overload, onto(v, device)) for v in variants]
        except (RuntimeError, NotImplementedError) as e:
            if "CUDA error" in str(e):
                raise
            raise Refused(f"eager on {device} refuses `{overload}`: {e}") from e


def check(
    site: Site,
    place: Place,
    points: str = "default",
    tell: Callable[[str], None] = lambda _: None,
    align: int = 0,
) -> list[Row]:
    """Return a row for each candidate of a site: {family, params, status, detail, cases}; `ok`, or the first thing that is wrong.

    tell: is given the words for what runs next, so that a crash can be told by the last of them.
    align: what the card says of addresses, bytes; 0: nothing.

    Raises:
        Refused: eager does not take the call on the device.
    """
    device = place.device
    variants = [onto(list(v), device) for v in site.variants]
    calls = capture_all(site.overload, variants, device)
    candidates = render(card_of(calls, variants[0], align), place, points)
    compile_all(candidates, place)
    rows: list[Row] = [
        {"family": c["family"], "params": c["params"], "status": "ok", "detail": "", "cases": 0}
        for c in candidates
    ]
    families = len({c["family"] for c in candidates})
    for number, (arguments, call) in enumerate(zip(variants, calls, strict=True)):
        v = Variant(call, arguments, 7, place)
        plans = [plan_of(c, call, place) for c in candidates]
        for j, case in enumerate(v.inputs(minor=number > 1)):
            tensors = v.draw(case.kind, case.number)
            bounds = bounds_of(v.overload, v.arguments([onto(t, device) for t in tensors]), case.kind)
            for i, (plan, row) in enumerate(zip(plans, rows, strict=True)):
                if row["status"] != "ok" or (i >= families and case.kind not in ("captured", "special")):
                    continue
                where = f"v{number} {case.kind} {case.number}"
                tell(f"{site.name} {row['family']} {row['params']} {where}")
                outs = _served(site.overload, v, tensors, plan, place, row)
                if row["status"] == "ok":
                    finding = compare(bounds, outs)
                    row["status"], row["detail"] = finding.status, finding.detail
                if row["status"] == "ok" and j == 0:
                    again = _served(site.overload, v, tensors, plan, place, row)
                    if not all(map(same_bits, outs, again)):
                        row["status"], row["detail"] = "wrong_value", "a repeat gives other bits"
                row["cases"] += 1
                if row["status"] != "ok":
                    row["detail"] = f"{where}: {row['detail']}"
    return rows


def _served(
    overload: str, v: Variant, tensors: list[torch.Tensor], plan: Any, place: Place, row: Row
) -> list[torch.Tensor]:
    """Return the outputs of a call that the plan must serve. Memory that the caching allocator hands out next is full of NaN."""
    module = _ext.load()
    arguments = v.arguments([onto(t, place.device) for t in tensors])
    poison = [
        torch.full(((o["sizes"] and _count(o)) or 1,), 0xFF, dtype=torch.uint8, device=place.device)
        for o in v.call["outputs"]
    ]
    del poison
    with torch.inference_mode(), served(plan):
        outs = module.call(overload, arguments)
        torch.cuda.synchronize(place.device)
        counts = module.stats()["ops"].get(overload, {})
    if counts.get("hits") != 1:
        row["status"], row["detail"] = "not_served", f"the dispatcher fell back: {counts.get('fallbacks')}"
    return list(outs) if isinstance(outs, (list, tuple)) else [outs]


def _count(output: dict[str, Any]) -> int:
    count: int = getattr(torch, output["dtype"]).itemsize
    for size in output["sizes"]:
        count *= size
    return max(count, 1)
