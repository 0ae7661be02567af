"""How calls are timed in this process, the same way for eager and for a plan: through the dispatcher, over rotating sets of arguments.

On the host the calls run one after the other between two readings of the clock. On a CUDA device a block of calls is captured once as a graph, and
the graph is replayed between two events, so that what is timed is the device's work and not Python's. A graph should call each set (`inner_for`): the
sets together are beyond the cache, so that no replay finds its data there. An operator that cannot be captured (it waits for the device) is timed by
events around its calls; `how` says which it was.

It owns the graphs and their memory. It refuses to judge what it measured.
"""

from __future__ import annotations

import functools
import logging
import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .. import _ext
from .._place import Place, out_of_memory

log = logging.getLogger("kernelforge")

MOST_INNER = 200  # as the judge (go/judge/timing.go), whose plan of a sample this is
_SAMPLE_NS, _LONG_NS = 200_000.0, 20e6
_REFERENCE_SAMPLES = 3
_MOST_GRAPHS = 6  # of one operator on one pool; a graph holds the memory of its outputs
_SETTLE = (
    3  # calls before a capture: libraries load code, choose algorithms and take workspaces at the first ones
)
_WARM_S, _WARM_MOST_S = 0.025, 0.25  # a device's clocks rise under load; the longest that is waited for
_IDLE_S = 0.05  # after a timing so long ago they may have fallen
_AGREE, _ALIKE = 3, 0.02  # so many samples in a row within this part of each other: it is warm

Arguments = Sequence[Any]
Blocks = dict[str, list[float]]


def _nothing() -> None:
    pass


class Calls(Protocol):
    """One operator over rotating sets of arguments, ready to be timed. Times are nanoseconds a call, each the mean of `inner` calls in a row.

    how: `clock`, `graph` or `events`.
    """

    how: str

    def eager(self, samples: int, inner: int, *, warm: bool = True) -> list[float]:
        """Return times of eager, whatever is published. warm: an untimed pass goes first."""

    def blocks(
        self,
        count: int,
        inner: int,
        seed: int,
        *,
        control: bool = False,
        padding: int = 0,
        between: Callable[[], None] = _nothing,
    ) -> Blocks:
        """Return {"eager_ns", "ours_ns", "again_ns"}: eager, what the dispatcher serves now, and with `control` eager once more as if it were a candidate
        (else empty), once a block each, in an order drawn anew for every block.

        padding: calls that a sample of eager makes and does not count, so that it is slower by padding / inner: for trials of the rule.
        between: called on a device before the first block and after each.
        """


def calls_of(place: Place, name: str, sets: Sequence[Arguments], pool: Any = None) -> Calls:
    """Return an operator over these sets. pool: a handle of torch's graph memory that several operators may share."""
    return _DeviceCalls(place, name, sets, pool) if place.cuda else _HostCalls(name, sets)


def inner_for(once_ns: float, sets: int, place: Place) -> int:
    """Return how many calls make one sample: long enough that reading the clock does not count, and on a device a pass over all sets.

    once_ns: of one call. A pass that would take longer than 20 ms is not worth it: what an operator this slow does is not reading.
    """
    inner = int(min(max(_SAMPLE_NS / max(once_ns, 1.0), 1), MOST_INNER))
    whole = min(sets, MOST_INNER)
    return max(inner, whole) if place.cuda and once_ns * whole <= _LONG_NS else inner


def reference_ns(place: Place) -> float:
    """Return the time of the reference kernel, which the worker runs as well: nanoseconds, the median of three."""
    extension = _ext.load()
    times = (
        extension.time_reference(_REFERENCE_SAMPLES, place.ordinal)
        if place.cuda
        else extension.time_reference(_REFERENCE_SAMPLES)
    )
    return float(sorted(times)[_REFERENCE_SAMPLES // 2])


class _HostCalls:
    how = "clock"

    def __init__(self, name: str, sets: Sequence[Arguments]) -> None:
        self._name, self._sets = name, sets

    def eager(self, samples: int, inner: int, *, warm: bool = True) -> list[float]:
        times: list[float] = _ext.load().time_calls(self._name, self._sets, samples, inner, False, warm)
        return times

    def blocks(
        self,
        count: int,
        inner: int,
        seed: int,
        *,
        control: bool = False,
        padding: int = 0,
        between: Callable[[], None] = _nothing,
    ) -> Blocks:
        found: Blocks = _ext.load().time_blocks(
            self._name, self._sets, count, inner, seed, control=control, padding=padding
        )
        return found


@dataclass(frozen=True)
class _Side:
    """One side of a block: the name of its list, the calls of a sample, and whether plans serve them."""

    name: str
    calls: int
    plans: bool


def _warm(block: Callable[[], list[float]], least_s: float) -> None:
    """Run blocks untimed until each side's last samples agree, at least for so many seconds: a device's clocks rise with its first work."""
    seen: list[list[float]] = []
    begin = time.monotonic()
    while (spent := time.monotonic() - begin) < _WARM_MOST_S:
        seen = [*seen, block()][-_AGREE:]
        alike = len(seen) == _AGREE and all(max(s) <= min(s) * (1 + _ALIKE) for s in zip(*seen, strict=True))
        if spent >= least_s and alike:
            return


_worked: dict[Place, float] = {}
"""When blocks were last timed on a device: what follows soon finds it warm."""


@functools.cache
def _side_stream(place: Place) -> Any:
    """Return the stream of all captures on a device: torch hands out memory again on the stream that it was used on, so one stream needs it once."""
    return torch.cuda.Stream(place.device)  # type: ignore[no-untyped-call]


class _DeviceCalls:
    """The same on a CUDA device. Graphs of eager are kept by their number of calls; graphs of a plan live as long as the blocks that need them."""

    def __init__(self, place: Place, name: str, sets: Sequence[Arguments], pool: Any) -> None:
        self.how = "graph"
        self._place, self._name, self._sets = place, name, sets
        self._pool = pool if pool is not None else torch.cuda.graph_pool_handle()
        self._stream = _side_stream(place)
        self._graphs: OrderedDict[int, torch.cuda.CUDAGraph] = OrderedDict()

    def eager(self, samples: int, inner: int, *, warm: bool = True) -> list[float]:
        graph = self._of_eager(inner)
        if graph is None:
            return self._by_events(samples, inner, plans=False)
        return self._replayed(graph, samples, inner)

    def blocks(
        self,
        count: int,
        inner: int,
        seed: int,
        *,
        control: bool = False,
        padding: int = 0,
        between: Callable[[], None] = _nothing,
    ) -> Blocks:
        sides = [_Side("eager_ns", inner + padding, plans=False), _Side("ours_ns", inner, plans=True)]
        if control:
            sides.append(_Side("again_ns", inner + padding, plans=False))
        graphs = {s.name: self._graph(s) for s in sides}
        found: Blocks = {"eager_ns": [], "ours_ns": [], "again_ns": []}

        def sample(side: _Side) -> float:
            graph = graphs[side.name] if None not in graphs.values() else None
            if graph is not None:
                return self._replayed(graph, 1, inner)[0]
            return self._by_events(1, side.calls, plans=side.plans)[0] * side.calls / inner

        idle = time.monotonic() - _worked.get(self._place, -math.inf) > _IDLE_S
        _warm(lambda: [sample(side) for side in sides], _WARM_S if idle else 0.0)
        chance = random.Random(seed)
        between()
        for _ in range(count):
            chance.shuffle(sides)
            for side in sides:
                found[side.name].append(sample(side))
            between()
        _worked[self._place] = time.monotonic()
        return found

    def _graph(self, side: _Side) -> torch.cuda.CUDAGraph | None:
        if side.name == "eager_ns":
            return self._of_eager(side.calls)
        # What is served may be another plan now; and the control has, as a candidate has, memory of its own.
        return None if self.how == "events" else self._capture(side.calls, plans=side.plans)

    def _of_eager(self, calls: int) -> torch.cuda.CUDAGraph | None:
        if self.how == "events":
            return None
        graph = self._graphs.pop(calls, None) or self._capture(calls, plans=False)
        if graph is not None:
            self._graphs[calls] = graph  # the newest is the last
            while len(self._graphs) > _MOST_GRAPHS:
                self._graphs.popitem(last=False)
        return graph

    def _capture(self, calls: int, *, plans: bool) -> torch.cuda.CUDAGraph | None:
        """Return a graph of so many calls, or None if the operator cannot be captured."""
        extension = _ext.load()
        graph = torch.cuda.CUDAGraph()
        self._place.wait()
        with torch.cuda.stream(self._stream):
            extension.run_calls(self._name, self._sets, _SETTLE, plans)
            self._stream.synchronize()
            try:
                with self._place.capturing(graph, self._pool):
                    extension.run_calls(self._name, self._sets, calls, plans)
            except RuntimeError as e:
                if out_of_memory(e):
                    raise
                self.how = "events"
                words = (str(e).splitlines() or [""])[0]
                log.info("`%s` cannot be captured, so it is timed by events: %s", self._name, words)
                return None
        return graph

    def _replayed(self, graph: torch.cuda.CUDAGraph, samples: int, calls: int) -> list[float]:
        raw, stream = graph.raw_cuda_graph_exec(), self._stream.cuda_stream
        times = _ext.load().graph_time(self._place.ordinal, raw, stream, samples)
        return [t / calls for t in times]

    def _by_events(self, samples: int, calls: int, *, plans: bool) -> list[float]:
        extension, times = _ext.load(), []
        with torch.cuda.stream(self._stream):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            extension.run_calls(self._name, self._sets, 1, plans)
            for _ in range(samples):
                self._stream.synchronize()
                start.record()
                extension.run_calls(self._name, self._sets, calls, plans)
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end) * 1e6 / calls)
        return times
