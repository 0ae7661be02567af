"""Paired timing of a whole model, and the interval that a claim rests on.

It owns the two-line statistics that Python needs (the tree and the judge have their own, in Go). It refuses operators: those are the referee's.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Interval:
    """A median with the bounds of its 95 % interval."""

    median: float
    low: float
    high: float
    samples: int


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median and the bounds that hold the true median with at least this confidence.

    The bounds are order statistics: the number of values below the true median is binomial(n, 1/2), whatever the distribution. With fewer
    than six values no pair of them is 95 % sure; then the bounds are the extremes.

    Raises:
        ValueError: no value.

    Example:
        >>> median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])  # P(2nd <= median <= 9th) = 1 - 2 * 11/1024
        Interval(median=5.5, low=2, high=9, samples=10)

    Source: Conover, Practical Nonparametric Statistics, section 3.2.
    """
    if not values:
        raise ValueError("interval of no value")
    ordered = sorted(values)
    n = len(ordered)
    rank, below = 0, 0.0  # `below` = P(binomial(n, 1/2) <= rank)
    while True:
        below += math.comb(n, rank) / 2**n
        if 2 * below > 1 - confidence:
            break
        rank += 1
    k = max(0, rank - 1)
    return Interval(statistics.median(ordered), ordered[k], ordered[n - 1 - k], n)


@dataclass(frozen=True)
class ModelTime:
    """The whole model with eager operators and with plans, paired: `ratio` is eager / kernelforge."""

    eager_ms: float
    kernelforge_ms: float
    ratio: float
    low: float
    high: float
    samples: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def from_pairs(eager_ms: Sequence[float], kernelforge_ms: Sequence[float]) -> ModelTime:
    """Return the evidence of paired samples; the ratio's interval is that of the median of the ratios of the pairs."""
    if len(eager_ms) != len(kernelforge_ms):
        raise ValueError(f"pair {len(eager_ms)} eager samples with {len(kernelforge_ms)} of kernelforge")
    ratio = median_interval([e / k for e, k in zip(eager_ms, kernelforge_ms, strict=True)])
    return ModelTime(
        statistics.median(eager_ms),
        statistics.median(kernelforge_ms),
        ratio.median,
        ratio.low,
        ratio.high,
        ratio.samples,
    )


def time_model(
    forward: Callable[[], Any],
    switch: Callable[[bool], None],
    *,
    blocks: int,
    seed: int,
    max_seconds: float = math.inf,
) -> ModelTime:
    """Time `forward` with plans off and on, paired block by block, in random order within a block.

    Args:
        forward: one call of the model.
        switch: called with False (eager) or True (plans) before a call.
        blocks: pairs to take; fewer, but at least six, when `max_seconds` runs out.

    Returns:
        Times in milliseconds. The switch is left on.
    """
    chance = random.Random(seed)
    eager: list[float] = []
    ours: list[float] = []
    started = time.monotonic()
    try:
        for on in (False, True):  # warm: caches of the vendor libraries, the allocator
            switch(on)
            forward()
        while len(eager) < blocks and (len(eager) < 6 or time.monotonic() - started < max_seconds):
            for on in chance.sample((False, True), 2):
                switch(on)
                begin = time.perf_counter_ns()
                forward()
                (ours if on else eager).append((time.perf_counter_ns() - begin) / 1e6)
    finally:
        switch(True)
    return from_pairs(eager, ours)
