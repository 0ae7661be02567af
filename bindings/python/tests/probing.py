"""Judges a candidate that is a Python function as the referee does, relations between its runs included. Material of the tests of the rule's probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from calling import call_of
from kernelforge.referee.bounds import Finding, compare
from kernelforge.referee.cases import Variant, bounds_of

Candidate = Callable[[list[Any]], list[torch.Tensor]]
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def draw(*sizes: int, dtype: torch.dtype = F32, seed: int = 1) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed), dtype=F64).to(dtype)


def variant(overload: str, *payload: Any, off: tuple[str, ...] = (), seed: int = 3) -> Variant:
    return Variant(call_of(overload, list(payload)), list(payload), seed, off=off)


def findings(v: Variant, candidate: Candidate, kinds: tuple[str, ...] = ()) -> list[Finding]:
    """Judge a candidate as the referee does, relations included."""
    found, outputs, bounds = [], {}, {}
    for kind, number in dict.fromkeys((i.kind, i.number) for i in v.inputs()):
        tensors = v.draw(kind, number)
        arguments = v.arguments(tensors)
        held = bounds_of(v.overload, arguments, kind, v.off)
        outs = candidate(arguments)
        outputs[kind, number], bounds[kind, number] = outs, held
        finding = compare(held, outs)
        item = next(i for i in v.inputs() if (i.kind, i.number) == (kind, number))
        base = v.base(item)
        if finding.status == "ok" and base is not None and v.probes is not None:
            named = dict(zip(v.overload.names, arguments, strict=True))
            finding = v.probes.check(number, named, outs, held, outputs[base], bounds[base])
        if not kinds or kind in kinds:
            found.append(finding)
    return found


def passes(v: Variant, candidate: Candidate) -> bool:
    return all(f.status == "ok" for f in findings(v, candidate))
