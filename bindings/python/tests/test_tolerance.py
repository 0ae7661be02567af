"""The numeric rule tells right from wrong: for every operator that a template serves, in every type, on the inputs that the judge uses.

Eager and other valid algorithms must pass every case; each mistake must fail at least one. A mistake that passed would be served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from calling import call_of
from kernelforge.referee import rule
from kernelforge.referee.bounds import Bound, Finding, compare
from kernelforge.referee.calls import map_tensors
from kernelforge.referee.cases import Variant, bounds_of
from kernelforge.referee.reference import run_eager
from tolerance_samples import SAMPLES, Sample

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
LOWER = {
    torch.float64: (torch.float32,),
    torch.float32: (torch.bfloat16, torch.float16),
    torch.bfloat16: (torch.float8_e4m3fn,),
    torch.float16: (torch.float8_e4m3fn,),
}
HALF = (torch.bfloat16, torch.float16)
# Operators whose algorithms have several steps in torch's own code too; its sums accumulate in float32 whatever their type.
STEPS = {
    "gelu",
    "tanh",
    "_softmax",
    "native_layer_norm",
    "group_norm",
    "native_group_norm",
    "_fused_rms_norm",
    "native_batch_norm",
    "upsample_bilinear2d",
}
COMPUTE = {torch.float64: torch.float64}  # else float32, as eager does

Case = tuple[str, list[Any], list[Bound]]


class Judge:
    """All cases of one sample in one type, as the referee makes them."""

    def __init__(self, sample: Sample, dtype: torch.dtype) -> None:
        self.sample, self.dtype = sample, dtype
        payload = sample.make(dtype)
        self.variant = Variant(call_of(sample.overload, payload), payload, seed=7)
        self.overload = self.variant.overload
        self.cases: list[Case] = []
        for kind, number in dict.fromkeys((i.kind, i.number) for i in self.variant.inputs()):
            arguments = self.variant.arguments(self.variant.draw(kind, number))
            self.cases.append((f"{kind}{number}", arguments, bounds_of(self.overload, arguments, kind)))

    def findings(
        self, candidate: Callable[[list[Any], list[Bound]], list[torch.Tensor]]
    ) -> Iterator[tuple[str, Finding]]:
        for name, arguments, bounds in self.cases:
            yield name, compare(bounds, candidate(arguments, bounds))

    def rough(self, candidate: Callable[[list[Any], list[Bound]], list[torch.Tensor]]) -> float:
        """Return the largest relative error of a normal number against the rounded reference."""
        worst, tiny = 0.0, torch.finfo(self.dtype).tiny
        for _, arguments, bounds in self.cases:
            for out, b in zip(candidate(arguments, bounds), bounds, strict=True):
                best = b.best.double()
                error = ((out.double() - best) / best).abs()[best.abs() >= tiny]
                worst = max(worst, float(error.nan_to_num(0, 0, 0).amax(dim=None)) if error.numel() else 0.0)
        return worst

    def algorithm(
        self, f: Callable[..., Any], compute: torch.dtype
    ) -> Callable[[list[Any], list[Bound]], list[torch.Tensor]]:
        """Make a candidate of an algorithm: its results rounded to eager's types; None stands for eager's own output."""

        def candidate(arguments: list[Any], bounds: list[Bound]) -> list[torch.Tensor]:
            out = f(arguments, lambda t: t.to(compute))
            outs = list(out) if isinstance(out, (tuple, list)) else [out]
            return [
                b.eager.clone() if o is None else o.to(b.eager.dtype).reshape(b.eager.shape)
                for o, b in zip(outs, bounds, strict=True)
            ]

        return candidate


@pytest.fixture(
    scope="module",
    params=[(s, d) for s in SAMPLES for d in DTYPES],
    ids=lambda p: f"{p[0].name}-{str(p[1])[6:]}".replace(" ", "_"),
)
def judge(request: pytest.FixtureRequest) -> Judge:
    sample, dtype = request.param
    return Judge(sample, dtype)


def passes(judge: Judge, candidate: Callable[..., list[torch.Tensor]]) -> list[str]:
    return [f"{name}: {f.detail}" for name, f in judge.findings(candidate) if f.status != "ok"]


def fails(judge: Judge, candidate: Callable[..., list[torch.Tensor]]) -> bool:
    return any(f.status != "ok" for _, f in judge.findings(candidate))


def test_eager_passes_and_is_exact(judge: Judge) -> None:
    found = list(judge.findings(lambda a, b: run_eager(judge.overload, a)))
    assert [(n, f) for n, f in found if f.status != "ok" or not f.exact] == []


def test_the_rounded_reference_passes(judge: Judge) -> None:
    assert passes(judge, lambda arguments, bounds: [b.best for b in bounds]) == []


def test_other_valid_algorithms_pass(judge: Judge) -> None:
    compute = COMPUTE.get(judge.dtype, torch.float32)
    for name, f in judge.sample.good.items():
        assert passes(judge, judge.algorithm(f, compute)) == [], name


def test_mistakes_fail(judge: Judge) -> None:
    compute = COMPUTE.get(judge.dtype, torch.float32)
    for name, f in judge.sample.bad.items():
        if judge.dtype in judge.sample.bad_only.get(name, DTYPES):
            assert fails(judge, judge.algorithm(f, compute)), name


def test_outputs_that_ignore_the_work_fail(judge: Judge) -> None:
    controls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "zeros": torch.zeros_like,
        "its mean": lambda e: torch.full_like(e, float(torch.nan_to_num(e.double(), 0, 0, 0).mean())),
        "rows shifted": lambda e: (
            e.roll(1, next((d for d, n in enumerate(e.shape) if n > 1), 0)) if e.dim() else e + 1
        ),
        "last element dropped": _without_last,
    }
    for name, make in controls.items():
        for i, first in enumerate(judge.cases[0][2]):
            if first.eager.numel() == 0:
                continue

            def candidate(
                arguments: list[Any],
                bounds: list[Bound],
                i: int = i,
                make: Callable[..., torch.Tensor] = make,
            ) -> list[torch.Tensor]:
                return [make(b.eager) if j == i else b.eager for j, b in enumerate(bounds)]

            assert fails(judge, candidate), f"{name}, output {i}"


def test_a_copy_of_the_input_fails(judge: Judge) -> None:
    def candidate(arguments: list[Any], bounds: list[Bound]) -> list[torch.Tensor]:
        first = next(a for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point())
        return [
            first.clone() if first.dtype is b.eager.dtype and first.shape == b.eager.shape else b.eager
            for b in bounds
        ]

    changed = (
        any(
            not torch.equal(c.nan_to_num(), b.eager.nan_to_num())
            for _, a, bs in judge.cases
            for c, b in zip(candidate(a, bs), bs, strict=True)
        )
        if judge.overload.operator != "cat"
        else False
    )
    if not changed:
        pytest.skip("no output has the input's shape, or the copy is right")
    assert fails(judge, candidate)


def test_the_next_lower_precision_fails(judge: Judge) -> None:
    if judge.sample.note == "converts" and judge.dtype is torch.float64:
        pytest.skip("the result is bfloat16: rounding its input to float32 first is right")
    for lower in LOWER[judge.dtype]:

        def cut(t: torch.Tensor, lower: torch.dtype = lower) -> torch.Tensor:
            if not t.is_floating_point():
                return t
            limit = min(torch.finfo(lower).max, torch.finfo(t.dtype).max)
            return torch.where(torch.isfinite(t), t.clamp(-limit, limit).to(lower).to(t.dtype), t)

        assert fails(
            judge, lambda a, _, cut=cut: [cut(o) for o in run_eager(judge.overload, map_tensors(a, cut))]
        ), lower


def test_half_types_need_a_wider_accumulator(judge: Judge) -> None:
    """Every step in the half type itself: the cheapest mistake there is."""
    if judge.dtype not in HALF or judge.overload.operator not in STEPS:
        pytest.skip("not a half type, or no steps to narrow")
    for name, f in judge.sample.good.items():
        narrow = judge.algorithm(f, judge.dtype)
        granted = rule.ENVELOPE[judge.dtype] * judge.rough(lambda a, b: run_eager(judge.overload, a))
        if not fails(judge, narrow) and judge.rough(narrow) <= granted:
            # gelu with AVX-512: Abramowitz and Stegun 7.1.26 is 1.5e-7 off, which is much of what is left of it far below zero.
            pytest.skip(f"{name}: eager's own error is of that size on this processor")
        assert fails(judge, narrow), name


def _without_last(e: torch.Tensor) -> torch.Tensor:
    out = e.clone()
    flat = out.view(-1) if out.is_contiguous() else out.reshape(-1)
    flat[-1] = torch.finfo(e.dtype).max / 3 if e.is_floating_point() else -7
    return flat.reshape(e.shape)
