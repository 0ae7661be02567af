"""Paired evidence from the user's process: a plan against eager by the real dispatch path, and eager against eager beside it.

It owns the fresh inputs, the order of blocks and the comparison of what the plan made. It refuses to decide: raw samples go back to the judge.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import _ext
from .bounds import Finding
from .calls import clone, map_tensors
from .cases import Variant, bounds_of, compare
from .pool import sets_for
from .rule import RULE

_BAD_CODE = 3  # KFR_BAD_CODE
_SAMPLE_NS = 200_000.0  # one sample lasts at least this long, so that the clock's reading does not count
_MOST_INNER = 200
_LEAST_CONTROL = 8  # pairs of eager against eager
_SETS_BYTES = 128 << 20


def free_bytes() -> int:
    """Return the memory that is free now, 4 GiB where the machine does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    with contextlib.suppress(OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 4 << 30


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


def open_plan(extension: Any, plan: dict[str, Any], image: str) -> Any:
    """Open a plan as a pack would.

    Raises:
        NotLoaded: the runtime refuses it.
    """
    try:
        return extension.plan_open(json.dumps(plan), Path(image).read_bytes())
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
        opened = open_plan(extension, plan, image)
    except NotLoaded as e:
        return _answer(status=e.status, detail=str(e))
    sets = _sets(variant)
    name = variant.overload.name
    once = min(extension.time_calls(name, sets, 3, 1, False))
    inner = int(min(max(_SAMPLE_NS / max(once, 1.0), 1), _MOST_INNER))
    with serving(extension, []):
        control = extension.time_pairs(
            name, sets, max(blocks // 2, min(blocks, _LEAST_CONTROL)), inner, seed + 1
        )
    with serving(extension, [opened]):
        pairs = extension.time_pairs(name, sets, blocks, inner, seed)
        wrong = _compared(extension, variant, opened)
    aa = [control["eager_ns"], control["ours_ns"]]
    return _answer(pairs["eager_ns"], pairs["ours_ns"], aa, wrong.status, wrong.detail)


def _answer(
    eager: Sequence[float] = (),
    ours: Sequence[float] = (),
    aa: Sequence[Sequence[float]] = ((), ()),
    status: str = "ok",
    detail: str = "",
) -> dict[str, Any]:
    return {
        "eager_ns": list(eager),
        "ours_ns": list(ours),
        "aa_ns": [list(a) for a in aa],
        "status": status,
        "detail": detail,
        "rule": RULE,
    }


def _sets(variant: Variant) -> list[list[Any]]:
    """Return rotating argument sets in torch's own memory, as a model has them."""
    first = variant.arguments(variant.draw("fresh", 0))
    size = sum(s.bytes for s in variant.slots)
    count = min(sets_for(size), max(2, _SETS_BYTES // max(size, 1)))
    return [first, *(map_tensors(first, clone) for _ in range(count - 1))]


def _compared(extension: Any, variant: Variant, opened: Any) -> Finding:
    """Run the plan once more on fresh inputs that were not timed, through the dispatcher, and compare."""
    name = variant.overload.name
    for number in range(2):
        arguments = variant.arguments(variant.draw("fresh", number))
        bounds = bounds_of(variant.overload, arguments, "fresh")
        before = opened.hits
        outputs = extension.call(name, map_tensors(arguments, clone))
        if opened.hits != before + 1:
            reasons = extension.stats()["ops"].get(name, {}).get("fallbacks", {})
            return Finding(
                "launch_error",
                f"the dispatcher did not serve it ({', '.join(reasons) or 'no reason was counted'})",
            )
        finding = compare(bounds, [o for o in outputs if isinstance(o, torch.Tensor)])
        if finding.status != "ok":
            return finding
    return Finding("ok")
