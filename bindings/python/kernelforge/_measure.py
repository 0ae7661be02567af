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

from . import _turns
from ._place import HOST, Place

_WARM = {
    "host": 1,
    "cuda": 3,
}  # a device raises its clocks, and libraries choose algorithms, within the first forwards


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
    place: Place = HOST,
) -> ModelTime:
    """Time `forward` with plans off and on, paired block by block, in random order within a block.

    Args:
        forward: one call of the model.
        switch: called with False (eager) or True (plans) before a call; who gives it puts it back (`_ext.switch`).
        blocks: pairs to take; fewer, but at least six, when `max_seconds` runs out.
        place: where the model runs; on a device a forward is timed by events.

    Returns:
        Times in milliseconds.
    """

    def sample(on: bool) -> float:
        switch(on)
        return place.forward_ms(forward)

    for on in (False, True) * _WARM[place.target]:  # caches of the vendor libraries, the allocator
        switch(on)
        forward()
    return _paired(sample, blocks, seed, max_seconds)


def whole_model(
    forward: Callable[[], Any],
    switch: Callable[[bool], None],
    *,
    blocks: int,
    seed: int,
    max_seconds: float,
    place: Place,
) -> dict[str, Any]:
    """Return `time_model`'s evidence as a dict, on a device with that of `time_graphs` beside it under `graph_`, or `graph_why`."""
    with _turns.alone(place):
        found = time_model(
            forward, switch, blocks=blocks, seed=seed, max_seconds=max_seconds, place=place
        ).to_dict()
    if not place.cuda:
        return found
    try:
        with _turns.alone(place):
            graphs = time_graphs(
                forward, switch, blocks=blocks, seed=seed, max_seconds=max_seconds, place=place
            )
    except RuntimeError as e:
        words = str(e).splitlines() or [type(e).__name__]
        return {**found, "graph_ratio": None, "graph_low": None, "graph_high": None, "graph_why": words[0]}
    return found | {f"graph_{name}": value for name, value in graphs.to_dict().items()}


def time_graphs(
    forward: Callable[[], Any],
    switch: Callable[[bool], None],
    *,
    blocks: int,
    seed: int,
    max_seconds: float = math.inf,
    place: Place,
) -> ModelTime:
    """Time the whole model as two CUDA graphs, captured with plans off and on and replayed in pairs as `time_model` does: the device's work alone.

    Raises:
        RuntimeError: the model cannot be captured (it waits for the device, or moves data to the host).
    """
    import torch

    graphs: dict[bool, Any] = {}
    pool = torch.cuda.graph_pool_handle()
    stream = torch.cuda.Stream(place.device)  # type: ignore[no-untyped-call]
    try:
        with place.current():
            for on in (False, True):
                switch(on)
                with torch.cuda.stream(stream):
                    for _ in range(_WARM[place.target]):
                        forward()
                place.wait()
                place.trim()  # both graphs take their memory from the pool
                graphs[on] = torch.cuda.CUDAGraph()
                with torch.cuda.stream(stream), place.capturing(graphs[on], pool):
                    forward()
            for graph in graphs.values():
                graph.replay()
            return _paired(lambda on: place.forward_ms(graphs[on].replay), blocks, seed, max_seconds)
    finally:
        place.wait()
        graphs.clear()
        place.trim()


def _paired(sample: Callable[[bool], float], blocks: int, seed: int, max_seconds: float) -> ModelTime:
    """Return the evidence of pairs. sample: (plans on) -> milliseconds."""
    chance = random.Random(seed)
    times: dict[bool, list[float]] = {False: [], True: []}
    started = time.monotonic()
    while len(times[True]) < blocks and (len(times[True]) < 6 or time.monotonic() - started < max_seconds):
        for on in chance.sample((False, True), 2):
            times[on].append(sample(on))
    return from_pairs(times[False], times[True])
