"""Paired evidence from the user's process: a plan against eager by the real dispatch path, with eager against eager in every block.

It owns the fresh inputs, the rotation of their sets and the comparison of what the plan made. It refuses to decide: raw samples go back to the judge. On
a device the dispatch path is captured as graphs, with the plan served and without, which are replayed in turn (`ruler.py`); they pass over sets that
together are beyond the L2 (cold), and once more over a single set (warm), each block between two readings of the device's clocks.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import _ext, _nvml
from .._place import HOST, Place
from .bounds import Finding, compare
from .calls import clone, map_tensors
from .cases import Variant, bounds_of
from .pool import sets_for
from .rule import RULE
from .ruler import Blocks, calls_of, inner_for

_BAD_CODE = 3  # KFR_BAD_CODE
_WARM_PART = 2  # of the blocks, one in so many is also timed on warm data
_SETS_BYTES = 128 << 20  # on the host; a device's sets must leave its cache, whatever they take


@contextlib.contextmanager
def serving(extension: Any, plans: Sequence[Any]) -> Iterator[None]:
    """Serve exactly these plans inside the block; afterwards what was served before."""
    from .. import _pack

    was = extension.enabled()
    extension.publish(list(plans))
    extension.set_enabled(True)
    try:
        yield
    finally:
        extension.set_enabled(was)
        _pack.publish_again()


class NotLoaded(Exception):
    """A plan that this process cannot open: status and detail of the answer."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def open_plan(extension: Any, plan: dict[str, Any], image: str, place: Place = HOST) -> Any:
    """Open a plan as a pack would.

    Raises:
        NotLoaded: the runtime refuses it.
    """
    try:
        return extension.plan_open(json.dumps(plan), Path(image).read_bytes(), place.device)
    except RuntimeError as e:
        status = "rejected" if getattr(e, "code", 0) == _BAD_CODE else "launch_error"
        raise NotLoaded(status, str(e)) from e


def confirm(variant: Variant, plan: dict[str, Any], image: str, blocks: int, seed: int) -> dict[str, Any]:
    """Time a plan against eager on fresh data; return the result of the task `confirm`.

    Eager is in each block twice, the second time in a candidate's place. After the timing every set's outputs are compared by the rules that the
    search used: a kernel that changes its ways when it is measured is caught here.
    """
    extension, place, name = _ext.load(), variant.place, variant.overload.name
    try:
        opened = open_plan(extension, plan, image, place)
    except NotLoaded as e:
        return refused(e.status, str(e))
    sets = _sets(variant)
    answer = _answer()
    answer["pool_bytes"] = len(sets) * sum(s.bytes for s in variant.slots)
    with serving(extension, [opened]):
        before = opened.hits
        answer |= _blocks(place, name, sets, blocks, seed, answer["readings"])
        if place.cuda:
            warm = _blocks(place, name, sets[:1], -(-blocks // _WARM_PART), seed + 1)
            answer["warm"] = {k: warm[k] for k in ("eager_ns", "ours_ns")}
        if opened.hits == before:
            wrong = Finding("launch_error", unserved(extension, name))
        else:
            wrong = compared(extension, variant, opened)
    return answer | _said(wrong)


def refused(status: str, detail: str, gate: str = "") -> dict[str, Any]:
    """Return the answer about a plan that was not timed."""
    return _answer() | _said(Finding(status, detail, gate=gate))


def _said(finding: Finding) -> dict[str, Any]:
    return {
        "status": finding.status,
        "gate": finding.gate,
        "detail": finding.detail,
        "exact": finding.exact,
    }


def _answer() -> dict[str, Any]:
    return {
        "eager_ns": [],
        "ours_ns": [],
        "again_ns": [],
        "readings": [],
        "warm": {"eager_ns": [], "ours_ns": []},
        "pool_bytes": 0,
        "rule": RULE,
    }


def _blocks(
    place: Place,
    name: str,
    sets: Sequence[Any],
    count: int,
    seed: int,
    readings: list[dict[str, Any]] | None = None,
) -> Blocks:
    """Time blocks over these sets. readings: gets what the device's clocks are before the first block and after each, where they can be read."""
    calls = calls_of(place, name, sets)
    inner = inner_for(min(calls.eager(3, 1)), len(sets), place)
    clocks = _nvml.clocks(str(place.info()["pci"])) if readings is not None and place.cuda else None
    if clocks is None or readings is None:
        return calls.blocks(count, inner, seed, control=readings is not None)
    return calls.blocks(count, inner, seed, control=True, between=lambda: readings.append(clocks()))


def _sets(variant: Variant) -> list[list[Any]]:
    """Return rotating argument sets in torch's own memory, as a model has them."""
    first = variant.arguments(variant.draw("fresh", 0))
    size = sum(s.bytes for s in variant.slots)
    count = sets_for(size, variant.place)
    if not variant.place.cuda:
        count = min(count, max(2, _SETS_BYTES // max(size, 1)))
    return [first, *(map_tensors(first, clone) for _ in range(count - 1))]


def timed(variant: Variant, blocks: int, seed: int) -> Blocks:
    """Time blocks of eager and of what the dispatcher serves now, over fresh data."""
    return _blocks(variant.place, variant.overload.name, _sets(variant), blocks, seed)


def compared(extension: Any, variant: Variant, opened: Any, *, inputs: int = 2) -> Finding:
    """Run the plan that is served once more on fresh inputs that were not timed, through the dispatcher, and compare."""
    name, exact = variant.overload.name, True
    for number in range(inputs):
        arguments = variant.arguments(variant.draw("fresh", number))
        bounds = bounds_of(variant.overload, arguments, "fresh", variant.off)
        before = opened.hits
        outputs = extension.call(name, map_tensors(arguments, clone))
        if opened.hits != before + 1:
            return Finding("launch_error", unserved(extension, name))
        finding = compare(bounds, [o for o in outputs if isinstance(o, torch.Tensor)])
        if finding.status != "ok":
            return replace(finding, detail=f"fresh input {number}: {finding.detail}")
        exact = exact and finding.exact
    return Finding("ok", exact=exact)


def unserved(extension: Any, name: str) -> str:
    """Return the words for a plan that the dispatcher passed by."""
    reasons = extension.stats()["ops"].get(name, {}).get("fallbacks", {})
    return f"the dispatcher did not serve it ({', '.join(reasons) or 'no reason was counted'})"
