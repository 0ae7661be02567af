"""What a candidate is compared with: eager's outputs, and the same call in float64 on exactly upcast inputs.

It owns running the overload with plans and capture off. References live in private memory: nothing here is ever exported to the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from .. import _ext
from .calls import Overload, clone, map_tensors
from .operators import Kind, operator


@dataclass(frozen=True)
class Reference:
    """Eager's outputs of one call, and what the rule needs beside them, per output.

    wide   float64 reference, or None where eager alone decides (exact kinds, integers).
    scale  S, or None for |wide|.
    kind   the rule of this output.
    """

    eager: list[torch.Tensor]
    wide: list[torch.Tensor | None]
    scale: list[torch.Tensor | None]
    kind: list[Kind]


def eager_only() -> AbstractContextManager[Any]:
    """Return the context in which calls of this thread reach eager, whatever is published; harmless without the extension."""
    module = _ext.loaded()
    return nullcontext() if module is None else module.thread_off()


def run_eager(overload: Overload, arguments: Sequence[Any]) -> list[torch.Tensor]:
    """Return eager's outputs on private copies, so that in-place forms leave the arguments alone."""
    with torch.no_grad(), eager_only():
        return overload(map_tensors(arguments, clone))


def refer(overload: Overload, arguments: Sequence[Any]) -> Reference:
    """Return the reference of one call."""
    eager = run_eager(overload, arguments)
    named = dict(zip(overload.names, arguments, strict=True))
    line = operator(overload, named)
    kinds = [_kind(line.kind, out, arguments) for out in eager]
    wide: list[torch.Tensor | None] = [None] * len(eager)
    scale: list[torch.Tensor | None] = [None] * len(eager)
    if "bounded" in kinds:
        up = _widened(overload, named)
        with torch.no_grad(), eager_only():
            outs = line.wide(up) if line.wide else overload(map_tensors(list(up.values()), clone))
            scales = line.scale(overload, up, outs) if line.scale else [None] * len(outs)
        for i, kind in enumerate(kinds):
            if kind == "bounded":
                # In float64 there is nothing wider: eager is the reference, and the constants of the rule make room for its error.
                wide[i] = outs[i]
                scale[i] = scales[i]
    return Reference(eager, wide, scale, kinds)


def widened_call(overload: Overload, arguments: Sequence[Any]) -> list[torch.Tensor]:
    """Return the outputs of a call in float64 on exactly upcast arguments."""
    named = dict(zip(overload.names, arguments, strict=True))
    up, line = _widened(overload, named), operator(overload, named)
    with torch.no_grad(), eager_only():
        return list(line.wide(up)) if line.wide else overload(map_tensors(list(up.values()), clone))


def _kind(kind: Kind, out: torch.Tensor, arguments: Sequence[Any]) -> Kind:
    if kind == "ranks":
        return kind
    if not out.is_floating_point():
        return "moves"
    if kind == "moves" and _dtypes(arguments) != {out.dtype}:
        return "rounds"  # a conversion rounds, and may change a NaN's payload
    return kind


def _dtypes(arguments: Sequence[Any]) -> set[torch.dtype]:
    found: set[torch.dtype] = set()

    def note(t: torch.Tensor) -> torch.Tensor:
        if t.dtype is not torch.bool:
            found.add(t.dtype)
        return t

    map_tensors(arguments, note)
    return found


def _widened(overload: Overload, named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with every floating tensor in float64 and every argument that names a type with it."""
    up = dict(
        zip(
            named,
            map_tensors(list(named.values()), lambda t: t.double() if t.is_floating_point() else t),
            strict=True,
        )
    )
    for name, value in up.items():
        if isinstance(value, torch.dtype) and value.is_floating_point:
            up[name] = torch.float64
    if up.get("half_to_float"):
        up["half_to_float"] = False
    if overload.operator == "_fused_rms_norm" and up["eps"] is None:
        # None means the epsilon of the type that eager computes in, which upcasting would change.
        computed = torch.float64 if named["input"].dtype is torch.float64 else torch.float32
        up["eps"] = torch.finfo(computed).eps
    return up
