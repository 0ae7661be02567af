"""What the dispatcher did: hits by site, fall-backs by operator and reason, and `explain`, which says for each call of one forward what ran and why.

It owns the words for the extension's reasons. It refuses to switch anything.
"""

from __future__ import annotations

import atexit
import json
import os
from pathlib import Path
from typing import Any

from . import _ext, _settings
from ._report import table, write_whole

# The extension's reasons in words; a reason that is not here is shown as it is.
REASONS = {
    "no_plan": "no plan for this operator",
    "no_match": "no plan was judged for exactly this call (shapes, strides, dtypes, scalars)",
    "disabled": "plans are switched off",
    "key_set": "a tensor is not plain and dense (sparse, quantized, nested, conjugate, a subclass)",
    "device": "a tensor is on another device",
    "dtype": "an element type that guards do not know",
    "empty": "an empty tensor",
    "no_data": "a tensor without memory (meta, fake)",
    "symbolic": "a size that is not known yet (tracing)",
    "no_tensor": "no tensor among the arguments",
    "rule": "a form that is never served (training, dropout)",
    "overlap": "output and input share memory in another way than judged",
    "too_large": "more arguments than a guard holds",
    "threads": "torch runs with another number of threads than the plan was judged with",
    "alignment": "a tensor starts at an address that the plan was not judged for",
    "deterministic": "deterministic algorithms are asked for and the plan is not marked so",
    "settings": "torch's default type, or oneDNN switched off: eager computes it in another way than the plan was judged against",
    "memory": "no memory for the plan's workspaces",
    "launch": "the launch was refused before any kernel ran",
}


def stats(reset: bool = False) -> dict[str, Any]:
    """Return hits and fall-backs since the start or the last reset; loads nothing.

    Hits and fall-backs with their reasons are counted for each site of the packs that are applied, and for each operator. A call that no plan is for
    is at no site: it counts for its operator, and `explain` says which it was, for one forward.

    Returns:
        {"plans": [{"id", "overload", "hits", "published"}], "sites": [{"overload", "inputs", "plan", "pack", "hits", "fallbacks": {reason: n}}],
        "ops": {overload: {"hits": n, "fallbacks": {reason: n}}}}

    Example:
        >>> kernelforge.stats()["ops"]["aten::max_pool2d_with_indices"]
        {'hits': 13, 'fallbacks': {}}
        >>> kernelforge.stats()["sites"][0]["inputs"], kernelforge.stats()["sites"][0]["hits"]
        ('float32[4,64,112,112]', 1)
    """
    extension = _ext.loaded()
    if extension is None:
        return {"plans": [], "sites": [], "ops": {}}
    from . import _pack

    sites = [
        {
            "overload": plan["call"]["overload"],
            "inputs": _shapes(plan["call"]),
            "plan": plan["id"],
            "pack": str(pack),
            "hits": loaded.hits,
            "fallbacks": loaded.fallbacks,
        }
        for pack, plan, loaded in _pack.serving()
    ]
    return {**extension.stats(reset), "sites": sites}


def dump_stats(path: str | os.PathLike[str]) -> Path:
    """Write the counters as JSON, in one step; return the path."""
    target = Path(path)
    write_whole(target, json.dumps({"schema": 1, "pid": os.getpid(), **stats()}, indent=1) + "\n")
    return target


_dump_registered = False


def dump_at_exit() -> None:
    """Have the counters written to `KERNELFORGE_STATS` when the process ends, if that is set."""
    global _dump_registered
    if _settings.read().stats_file is not None and not _dump_registered:
        _dump_registered = True
        atexit.register(_dump, os.getpid())


def _dump(owner: int) -> None:
    target = _settings.read().stats_file
    if (
        target is not None and os.getpid() == owner
    ):  # a forked child must not write over its parent's counters
        dump_stats(target)


# ---- explain ----------------------------------------------------------------------------------------------------


class Explanation:
    """The hooked calls of one forward, in order: what ran and why. `print(e)`, `.to_dict()`."""

    def __init__(self, sites: list[dict[str, Any]]) -> None:
        self.sites = sites

    def to_dict(self) -> dict[str, Any]:
        return {"schema": 1, "calls": self.sites, "sites": self._grouped()}

    def _grouped(self) -> list[dict[str, Any]]:
        groups: dict[str, dict[str, Any]] = {}
        for s in self.sites:
            key = json.dumps([s["overload"], _shapes(s["call"]), s["plan"], s["reason"]])
            row = groups.setdefault(
                key,
                {
                    "overload": s["overload"],
                    "shapes": _shapes(s["call"]),
                    "calls": 0,
                    "plan": s["plan"],
                    "reason": s["reason"],
                    "words": _words(s),
                },
            )
            row["calls"] += 1
        return list(groups.values())

    def __str__(self) -> str:
        rows = [
            [g["overload"].removeprefix("aten::"), g["shapes"], str(g["calls"]), g["words"]]
            for g in self._grouped()
        ]
        served = sum(s["plan"] is not None for s in self.sites)
        return "\n".join(
            [
                *table(["operator", "inputs", "calls", "what ran"], rows, right=(2,)),
                "",
                f"{served} of {len(self.sites)} hooked calls served",
            ]
        )

    def __repr__(self) -> str:
        return f"<kernelforge explanation: {sum(s['plan'] is not None for s in self.sites)} of {len(self.sites)} hooked calls served>"


def _words(site: dict[str, Any]) -> str:
    if site["plan"] is not None:
        return f"plan {site['plan']}"
    return f"eager: {REASONS.get(site['reason'], site['reason'])}"


def _shapes(call: dict[str, Any] | None) -> str:
    """Return the tensors of a call as text: `float32[4,64,112,112]`."""
    parts = []
    for arg in (call or {}).get("args", []):
        for t in arg.get("items", [arg]):
            if "sizes" in t:
                parts.append(f"{t['dtype']}{t['sizes']}".replace(" ", ""))
    return " ".join(parts)


def explain(model: Any, inputs: Any) -> Explanation:
    """Run the model once and return, for each hooked call, the plan that served it or the reason why eager ran.

    Args:
        model: any callable; a module's buffers and the random state are put back afterwards.
        inputs: as for `optimize`.

    Example:
        >>> print(kernelforge.explain(model, (x,)))
    """
    from ._inputs import device_of, forward_of
    from ._state import kept

    forward = forward_of(model, inputs)
    extension = _ext.load()
    with kept(model, inputs, device_of(model, inputs)):
        extension.trace_begin()
        try:
            forward()
        finally:
            sites = extension.trace_end()
    return Explanation([dict(s) for s in sites])
