"""Paired evidence from the user's process: a plan against eager by the real dispatch path, and eager against eager beside it.

It owns the fresh inputs, the order of blocks and the comparison of what the plan made. It refuses to decide: raw samples go back to the judge. On a
device the dispatch path is captured as a graph, with the plan served and without, and the two graphs are replayed in turn (`ruler.py`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import _ext
from .._place import HOST, Place
from .bounds import Finding, compare
from .calls import clone, map_tensors
from .cases import Variant, bounds_of
from .pool import sets_for
from .rule import RULE
from .ruler import calls_of, inner_for

_RIGHT = Finding("ok")
_BAD_CODE = 3  # KFR_BAD_CODE
_LEAST_CONTROL = 8  # pairs of eager against eager
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

    Eager against eager is timed first, by the same code with nothing published. After the timing every set's outputs are compared by the rules
    that the search used: a kernel that changes its ways when it is measured is caught here.
    """
    extension = _ext.load()
    try:
        opened = open_plan(extension, plan, image, variant.place)
    except NotLoaded as e:
        return refused(e.status, str(e))
    sets = _sets(variant)
    calls = calls_of(variant.place, variant.overload.name, sets)
    inner = inner_for(min(calls.eager(3, 1)), len(sets), variant.place)
    with serving(extension, []):
        control = calls.pairs(max(blocks // 2, min(blocks, _LEAST_CONTROL)), inner, seed + 1)
    with serving(extension, [opened]):
        before = opened.hits
        pairs = calls.pairs(blocks, inner, seed)
        if opened.hits == before:
            wrong = Finding("launch_error", unserved(extension, variant.overload.name))
        else:
            wrong = _compared(extension, variant, opened)
    aa = [control["eager_ns"], control["ours_ns"]]
    return _answer(pairs["eager_ns"], pairs["ours_ns"], aa, wrong)


def refused(status: str, detail: str, gate: str = "") -> dict[str, Any]:
    """Return the answer about a plan that was not timed."""
    return _answer(wrong=Finding(status, detail, gate=gate))


def _answer(
    eager: Sequence[float] = (),
    ours: Sequence[float] = (),
    aa: Sequence[Sequence[float]] = ((), ()),
    wrong: Finding = _RIGHT,
) -> dict[str, Any]:
    return {
        "eager_ns": list(eager),
        "ours_ns": list(ours),
        "aa_ns": [list(a) for a in aa],
        "status": wrong.status,
        "gate": wrong.gate,
        "detail": wrong.detail,
        "rule": RULE,
        "exact": wrong.exact,
    }


def _sets(variant: Variant) -> list[list[Any]]:
    """Return rotating argument sets in torch's own memory, as a model has them."""
    first = variant.arguments(variant.draw("fresh", 0))
    size = sum(s.bytes for s in variant.slots)
    count = sets_for(size, variant.place)
    if not variant.place.cuda:
        count = min(count, max(2, _SETS_BYTES // max(size, 1)))
    return [first, *(map_tensors(first, clone) for _ in range(count - 1))]


def _compared(extension: Any, variant: Variant, opened: Any) -> Finding:
    """Run the plan once more on fresh inputs that were not timed, through the dispatcher, and compare."""
    name, exact = variant.overload.name, True
    for number in range(2):
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
