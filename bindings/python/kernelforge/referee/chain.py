"""Accumulation: a call run CHAIN_STEPS times, each output made the next input, with plans and without. Errors that one run hides add up.

The rule: at every step the plans' distance from the chain in float64 is at most CHAIN_RATIO times eager's own drift, which is the largest of eager's
distance from it and of what chains move whose inputs are off by one rounding at each step. Where nothing can run in float64, distances are from eager.
Where eager has drifted beyond CHAIN_SATURATED of the output's size, the chain says nothing more.

It owns the feedback and the rule. It refuses to know what a step is: the whole model (`model.py`), or one operator where a model cannot be chained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .calls import clone, map_tensors
from .reference import run_eager, widened_call
from .rule import CHAIN_NOISE_RUNS, CHAIN_RATIO, CHAIN_SATURATED, CHAIN_STEPS, UNIT

if TYPE_CHECKING:
    from .cases import Variant

Step = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Drift:
    """How a chained run ended.

    status  `ok` or `wrong_value`.
    level   `model`, or `operator` with its name in front of the detail.
    steps   that were compared.
    worst   the largest distance of the plans / what is allowed.
    """

    status: str
    level: str
    steps: int
    worst: float
    detail: str


def feed(output: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return an output as the next input: repeated or cut to its size sample by sample, with the mean and deviation of the first input.

    like: the first input. What is not finite becomes its mean; the type is the input's, or float64 where the output is.
    """
    wide = output.detach().double()
    samples = like.shape[0] if like.dim() > 1 and output.dim() > 0 and output.shape[0] == like.shape[0] else 1
    flat, size = wide.reshape(samples, -1), max(like.numel() // samples, 1)
    flat = flat.repeat(1, -(-size // max(flat.shape[1], 1)))[:, :size].reshape(like.shape)
    finite = torch.isfinite(flat)
    flat = torch.where(finite, flat, 0.0)
    mean = flat.mean()
    spread = (flat - mean).square().mean().sqrt()
    first = like.detach().double()
    scale = first.std(correction=0) / spread if float(spread) > 0 else torch.zeros_like(spread)
    return ((flat - mean) * scale + first.mean()).to(
        output.dtype if output.dtype is torch.float64 else like.dtype
    )


def chain(
    step: Step, start: torch.Tensor, steps: int = CHAIN_STEPS, noise: torch.Generator | None = None
) -> Iterator[torch.Tensor]:
    """Yield the outputs of a chained run. noise: every input moves by one rounding of the first one's type, up or down by chance of its device."""
    x = start
    for _ in range(steps):
        if noise is not None:
            sign = torch.randint(0, 2, x.shape, generator=noise, dtype=torch.int8, device=x.device) * 2 - 1
            x = (x.double() * (1 + 2 * UNIT[start.dtype] * sign)).to(x.dtype)
        out = step(x)
        yield out
        x = feed(out, start)


def drift(
    level: str,
    eager: Step,
    ours: Step,
    wide: Step | None,
    start: torch.Tensor,
    steps: int = CHAIN_STEPS,
) -> Drift:
    """Run the chains and hold the plans' against eager's.

    Args:
        level: `model` or `operator`.
        eager, ours, wide: one step without plans, with them, and in float64 (None where it cannot run so). A step takes an input like `start`.
        start: the first input, floating.
    """
    # Every chain goes one step at a time beside the others, so that one output of each is held: 28 of a large model would not fit.
    if all(map(torch.equal, chain(eager, start, steps), chain(ours, start, steps))):
        return Drift("ok", level, steps, 0.0, f"bitwise equal to eager over {steps} chained steps")
    truths: Iterator[torch.Tensor | None] = (
        itertools.repeat(None, steps) if wide is None else chain(wide, start.double(), steps)
    )
    # Drawn on the device: a host takes half a minute for the steps of a large tensor.
    chances = [torch.Generator(start.device).manual_seed(number) for number in range(CHAIN_NOISE_RUNS)]
    moved = zip(*(chain(eager, start, steps, chance) for chance in chances), strict=True)
    together = zip(chain(eager, start, steps), chain(ours, start, steps), truths, moved, strict=True)
    worst, compared, words = 0.0, 0, "float64" if wide is not None else "eager"
    for i, (plain, mine, truth, noisy) in enumerate(together):
        usual = 0.0 if truth is None else _distance(plain, truth)
        usual = max(usual, *(_distance(n, plain) for n in noisy))
        reference = plain if truth is None else truth
        size = _distance(reference, torch.zeros_like(reference))
        if usual > CHAIN_SATURATED * size:
            break
        allowed = CHAIN_RATIO * usual + UNIT[start.dtype] * size
        found = _distance(mine, reference)
        if not found <= allowed:
            detail = f"step {i + 1} of {steps} chained steps: {found:.3g} away from {words} (eager's own drift {usual:.3g}, at most {allowed:.3g})"
            return Drift("wrong_value", level, i + 1, found / allowed if allowed > 0 else math.inf, detail)
        compared, worst = i + 1, max(worst, found / allowed if allowed > 0 else 0.0)
    cut = (
        ""
        if compared == steps
        else f", after which eager's own drift is beyond {CHAIN_SATURATED:.0%} of the output"
    )
    return Drift(
        "ok",
        level,
        compared,
        worst,
        f"{worst:.2g} times what is allowed over {compared} chained steps against {words}{cut}",
    )


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Root mean square over what is finite in both; infinite where one is finite and the other is not."""
    x, y = a.double(), b.double()
    both = torch.isfinite(x) & torch.isfinite(y)
    if bool((torch.isfinite(x) != torch.isfinite(y)).any()):
        return math.inf
    difference = torch.where(both, x - y, 0.0)
    return float(difference.square().mean().sqrt()) if difference.numel() else 0.0


def drift_of_operator(variant: Variant, served: Callable[[list[Any]], list[torch.Tensor]]) -> Drift | str:
    """Chain one operator with itself, by a plan and by eager; or say why it cannot be.

    served: calls the plan with arguments in schema order and returns its outputs.
    """
    tensors = variant.draw("captured" if variant.captured else "fresh", 0)
    at = next((i for i, s in enumerate(variant.slots) if s.read and s.dtype in UNIT and s.numel), None)
    if at is None or not variant.call["outputs"][0]["dtype"].startswith(("float", "bfloat")):
        return "it computes nothing floating"

    def placed(x: torch.Tensor) -> list[Any]:
        slot = variant.slots[at]
        narrow = x.reshape(slot.sizes)[tuple(slice(0, n) for n in slot.narrow)]
        own = slot.place(narrow) if x.dtype is slot.dtype else narrow.expand(slot.sizes)
        return variant.arguments([own if i == at else t for i, t in enumerate(tensors)])

    name = variant.overload.name.removeprefix("aten::")
    found = drift(
        "operator",
        lambda x: run_eager(variant.overload, placed(x))[0],
        lambda x: served(map_tensors(placed(x), clone))[0].clone(),
        lambda x: widened_call(variant.overload, placed(x))[0],
        tensors[at],
    )
    return Drift(
        found.status,
        found.level,
        found.steps,
        found.worst,
        f"`{name}` of variant {list(variant.slots[at].sizes)}: {found.detail}",
    )
