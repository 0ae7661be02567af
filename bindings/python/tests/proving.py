"""Proves every candidate of some cards by the referee's own rules: the same cases, bounds and comparisons that judge a candidate in a search.

A `Site` is one overload with argument lists (its variants, one card). `prove` runs each of the card's candidates on each variant: captured,
fresh, special and exact inputs, tensors at the end and at the start of their pages, two poisons, work split at odd places, repeats equal.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import blocks
import kernels
from calling import call_of
from kernelforge.referee.bounds import compare, same_bits
from kernelforge.referee.cases import Variant, bounds_of

Arguments = Sequence[Any]


@dataclass(frozen=True)
class Site:
    """One card: an overload and the argument lists of its variants, in schema order."""

    overload: str
    variants: tuple[Arguments, ...]
    points: str = "default"  # `axes`: every parameter changed alone as well
    families: int = 1  # how many families apply at least
    planes: bool = (
        False  # the first output is contiguous, as eager makes it on CUDA, whatever it is on the host
    )

    @property
    def name(self) -> str:
        first = next(a for a in self.variants[0] if isinstance(a, (torch.Tensor, list)))
        first = first[0] if isinstance(first, list) else first
        return f"{self.overload.removeprefix('aten::')}-{str(first.dtype).removeprefix('torch.')}"


def layout_of(arguments: Arguments) -> str:
    """Return the layout word of a card: of the first tensor."""
    for a in arguments:
        t = a[0] if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor) else a
        if isinstance(t, torch.Tensor):
            if t.is_contiguous():
                return "contiguous"
            last = t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last)
            return "channels_last" if last else "strided"
    return "contiguous"


def card_of(site: Site, target: str = "host", align: int = 0) -> dict[str, Any]:
    """Return the card JSON of a site. align: what it says of every input's address; 0: nothing."""
    variants = []
    for i, arguments in enumerate(site.variants):
        call = call_of(site.overload, arguments)
        if site.planes:
            call["outputs"][0]["strides"] = list(
                torch.empty(call["outputs"][0]["sizes"], device="meta").stride()
            )
        count = sum(_bytes(d) for d in [*call["args"], *call["outputs"]])
        variants.append(
            {"id": f"v{i}", "call": call, "calls": 1, "eager_us": 10.0, "bytes": count, "roof_us": 1.0}
        )
        if align:
            variants[-1]["align"] = [align] * len(kernels.slot_names(call))
    return {
        "schema": 1,
        "id": "c-00000000",
        "target": target,
        "overload": site.overload,
        "layout": layout_of(site.variants[0]),
        "threads": 2 if target == "host" else 0,
        "share": 0.1,
        "children": [],
        "variants": variants,
    }


def _bytes(d: dict[str, Any]) -> int:
    if d.get("kind") == "tensors":
        return sum(_bytes(i) for i in d["items"])
    count = 4 if "sizes" in d else 0
    for n in d.get("sizes", []):
        count *= n
    return count


class Proof:
    """Cards, candidates (the templates', or those given for each site) and compiled objects of a list of sites; made once a test module. `cuda` candidates run block by block on the CPU."""

    def __init__(
        self,
        sites: Sequence[Site],
        target: str = "host",
        given: Sequence[list[dict[str, Any]]] | None = None,
    ) -> None:
        runner = {"host": kernels, "cuda": blocks}[target]
        self.launch = runner.launch
        # Every other card on a device says that addresses are multiples of 16: pages then have no code for odd ones.
        self.cards = [
            card_of(s, target, 16 if target == "cuda" and i % 2 else 0) for i, s in enumerate(sites)
        ]
        self.candidates: list[list[dict[str, Any]]] = [list(g) for g in given or [[] for _ in sites]]
        for points in () if given else ("default", "axes"):
            mine = [i for i, s in enumerate(sites) if s.points == points]
            if mine:
                for i, found in zip(mine, kernels.render([self.cards[i] for i in mine], points), strict=True):
                    self.candidates[i] = found
        self.objects: dict[str, ctypes.CDLL] = runner.compile_all(
            c for found in self.candidates for c in found
        )


def prove(proof: Proof, number: int, site: Site) -> None:
    """Assert that every candidate of a site equals eager by the referee's rules, on all its variants and inputs."""
    candidates = proof.candidates[number]
    families = list(dict.fromkeys(c["family"] for c in candidates))
    assert len(families) >= site.families, (
        f"{site.name}: families {families} apply (expected {site.families})"
    )
    for arguments, variant in zip(site.variants, proof.cards[number]["variants"], strict=True):
        call = variant["call"]
        v = Variant(call, list(arguments), seed=7)
        for j, case in enumerate(v.inputs()):
            tensors = v.draw(case.kind, case.number)
            bounds = bounds_of(v.overload, v.arguments(tensors), case.kind)
            full = case.kind in ("captured", "special")
            for i, candidate in enumerate(candidates):
                if not full and i >= len(families):
                    continue  # other points of a family: captured and special inputs
                where = f"{site.name} {variant['id']} {case.kind} {case.number}: {candidate['family']} {candidate['params']}"
                outs = proof.launch(
                    candidate, proof.objects, call, tensors, at_end=case.placement == "end", pieces=1 + j % 3
                )
                finding = compare(bounds, outs)
                assert finding.status == "ok", f"{where}: {finding.detail}"
                if j == 0:
                    again = proof.launch(candidate, proof.objects, call, tensors, poison=0xFF, pieces=1)
                    assert all(map(same_bits, outs, again)), f"{where}: another poison gives other bits"
