"""An author's best kernel, the best template and eager on one call, in turn, by the real dispatch path: the comparison of bench/author.py.

It owns plans of candidates (compiled in this process, without a sandbox: only what the judge has passed comes here) and the ways that ops_time.py times.
It refuses to search and to judge.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ops_time
import torch
from author_cards import Card
from ops_time import Way

from kernelforge import _ext
from kernelforge._place import Place

sys.path.append(str(Path(__file__).resolve().parent.parent / "bindings/python/tests"))
ALIGN = 16  # bytes; what a brief promises of the tensors that a capture found so
BLOCKS = 15


def image(candidate: dict[str, Any], place: Place) -> bytes:
    """Return a candidate's code: a cubin, or on the host a shared object built with the product's flags."""
    constants = [f"-D{k}={v}" for k, v in sorted(candidate["spec"]["constants"].items())]
    if place.cuda:
        import rendering

        rendering.compile_all([candidate], place)
        return rendering._cubins[rendering._key(candidate)]
    import kernels

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "candidate.so"
        flags = [*kernels._flags(), *constants, f"-I{kernels.PRELUDE.parent}"]
        command = ["g++", *flags, "-include", kernels.PRELUDE.name, "-x", "c++", "-", "-o", str(made)]
        subprocess.run(command, input=candidate["source"], text=True, check=True)
        return made.read_bytes()


def plan_of(candidate: dict[str, Any], call: dict[str, Any], place: Place) -> Any:
    """Return a plan of a candidate for exactly this call."""
    tensors = [a for a in call["args"] if "sizes" in a]
    plan = {
        "id": "p-" + hashlib.sha256(candidate["source"].encode()).hexdigest()[:8],
        "call": call,
        "spec": candidate["spec"],
        "align": [ALIGN] * (len(tensors) + len(call["outputs"])),
        "deterministic": True,
        "exact": False,
        **({} if place.cuda else {"threads": torch.get_num_threads()}),
    }
    code = image(candidate, place)
    return _ext.load().plan_open(json.dumps(plan), code, place.ordinal if place.cuda else -1)


class Served:
    """The operator, served by one plan: publishes it when another one was."""

    published: Any = None

    def __init__(self, card: Card, plan: Any) -> None:
        self.card, self.plan = card, plan

    def __call__(self, *tensors: torch.Tensor) -> Any:
        if Served.published is not self.plan:
            _ext.load().publish([self.plan])
            Served.published = self.plan
        return self.card.call(*tensors)


def compared(
    card: Card,
    call: dict[str, Any],
    first: list[torch.Tensor],
    size: int,
    candidates: dict[str, dict[str, Any]],
    place: Place,
    blocks: int = BLOCKS,
) -> dict[str, Any]:
    """Return {way: microseconds} and, of `authored`, its ratios to the others with their intervals.

    Args:
        size: bytes that the call must move.
        candidates: those of `authored` and `template` that there are.

    Raises:
        RuntimeError: a plan did not serve the call.
    """
    module = _ext.load()
    plans = {name: plan_of(c, call, place) for name, c in candidates.items()}
    served: dict[str, Callable[..., Any]] = {name: Served(card, plan) for name, plan in plans.items()}
    ways = [Way("eager", card.call), *(Way(name, s, plans=True) for name, s in served.items())]
    # A copy by the driver, and one by a kernel: the faster of them is the copy.
    ways += [Way("copy", torch.clone, copies=True), Way("copy_kernel", torch.bitwise_not, copies=True)]
    try:
        sets = ops_time.argument_sets(first, place)
        made = card.call(*first)
        outputs = sum(t.numel() * t.element_size() for t in (made if isinstance(made, tuple) else (made,)))
        del made
        bench = ops_time.Bench(place, ways, sets, ops_time.copies_of(size, len(sets), place), outputs)
        times = bench.blocks(blocks)
        idle = [name for name, plan in plans.items() if plan.hits == 0]
        if idle:
            raise RuntimeError(f"time `{card.name}`: the plan of {', '.join(idle)} did not serve the call")
    finally:
        module.unpublish()
        Served.published = None
    found: dict[str, Any] = {f"{w}_us": round(statistics.median(v), 4) for w, v in times.items()}
    if "authored" in times:
        found |= {
            f"against_{w}": ops_time.compared(times[w], times["authored"])
            for w in ("eager", "template", "copy")
            if w in times
        }
    return {**found, "copy_us": min(found["copy_us"], found.pop("copy_kernel_us")), "why": bench.why}
