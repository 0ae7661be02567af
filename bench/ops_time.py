"""Times one call in several ways, interleaved: eager, compiled, a library's, kernelforge's, a copy of the same bytes. Part of bench/ops.py.

On a device every way is captured as a graph over rotating arguments, with outputs that rotate too, so that neither is found in the L2; the graphs are
replayed in an order drawn anew for every block. On the host the calls run between two readings of the clock, over arguments that leave the cache.
A graph of a single set of arguments gives the warm time. It owns sets, graphs and blocks. It refuses to search and to compile.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelforge import _ext, _measure, _turns
from kernelforge._place import Place
from kernelforge.referee.pool import sets_for

BLOCKS = 15  # pairs: the 95 % interval of their median lies between the 4th and the 12th
HOST_SETS_BYTES = 128 << 20
KEPT_BYTES = 4 << 30  # outputs that a capture keeps apart
SAMPLE_NS, MOST_INNER = 200_000.0, 128
SETTLE = 3  # calls before a capture: libraries load code and choose algorithms at the first ones
DISPATCH_CALLS, DISPATCH_ROUNDS = 20, 5

Arguments = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Way:
    """One way of making the call. plans: what kernelforge has published serves it. copies: it gets a flat source instead of the case's arguments."""

    name: str
    call: Callable[..., Any]
    plans: bool = False
    copies: bool = False


class NotCaptured(Exception):
    """A way that cannot be captured as a graph; the words say why."""


def argument_sets(first: list[torch.Tensor], place: Place, once: bool = False) -> list[list[torch.Tensor]]:
    """Return rotating sets that together leave the cache, or the first alone."""
    size = sum(x.numel() * x.element_size() for x in first)
    count = sets_for(size, place)
    if not place.cuda:
        count = min(count, max(2, HOST_SETS_BYTES // max(size, 1)))
    return [first, *([x.clone() for x in first] for _ in range(0 if once else count - 1))]


def copies_of(size: int, count: int, place: Place) -> list[list[torch.Tensor]]:
    """Return sources of a copy that reads and writes so many bytes together."""
    words = max(1, size // 8)  # int32, read once and written once
    return [[torch.ones(words, dtype=torch.int32, device=place.device)] for _ in range(count)]


def dispatched(call: Callable[..., Any], sets: Sequence[Arguments], place: Place) -> float:
    """Return what a call costs before the device works, microseconds: calls that are not waited for, on a queue that is empty."""
    best = float("inf")
    for _ in range(DISPATCH_ROUNDS):
        place.wait()
        begin = time.perf_counter_ns()
        for i in range(DISPATCH_CALLS):
            call(*sets[i % len(sets)])
        best = min(best, (time.perf_counter_ns() - begin) / DISPATCH_CALLS / 1e3)
    place.wait()
    return best


class Bench:
    """Several ways over the same sets.

    Args:
        output_bytes: what one call allocates.
    """

    def __init__(
        self,
        place: Place,
        ways: Sequence[Way],
        sets: Sequence[Arguments],
        copies: Sequence[Arguments],
        output_bytes: int,
    ) -> None:
        self.place, self.ways, self.sets, self.copies = place, list(ways), sets, copies
        self.output_bytes = max(output_bytes, 1)
        self.why: dict[str, str] = {}
        self._graphs: dict[str, torch.cuda.CUDAGraph] = {}
        self._next = 0  # the set that the next sample by the clock begins with, of whatever way
        self._pool: Any = None
        self._stream = torch.cuda.Stream(place.device) if place.cuda else None
        self._switch = _ext.load().set_enabled
        self.inner = self._inner()

    def blocks(self, count: int = BLOCKS, seed: int = 1, most_s: float = 20.0) -> dict[str, list[float]]:
        """Return {way: microseconds a call, of each block}; a way that cannot be timed is missing, and `why` says why. At least six blocks."""
        with self._timing() as sample:
            names = list(self.ways)
            for way in names:  # clocks rise, caches of code fill
                sample(way)
            chance, found = random.Random(seed), {w.name: [] for w in names}
            begin = time.monotonic()
            for done in range(count):
                if done >= 6 and time.monotonic() - begin > most_s:
                    break
                chance.shuffle(names)
                for way in names:
                    found[way.name].append(sample(way))
        return found

    def _inner(self) -> int:
        """Return the calls of a sample: long enough for the clock, and on a device a pass over all sets."""
        way, was = self.ways[0], _ext.load().enabled()
        self._switch(False)
        try:
            for _ in range(2):
                self._run(way, 1)
            once_ns = self.place.forward_ms(lambda: self._run(way, 1)) * 1e6
        finally:
            self._switch(was)
        inner = int(min(max(SAMPLE_NS / max(once_ns, 1.0), 1), MOST_INNER))
        return max(inner, len(self.sets)) if self.place.cuda else inner

    def _run(self, way: Way, calls: int, kept: list[Any] | None = None, first: int = 0) -> None:
        sets = self.copies if way.copies else self.sets
        call, many = way.call, len(sets)
        if kept is None:
            for i in range(first, first + calls):
                call(*sets[i % many])
            return
        most = max(1, KEPT_BYTES // self.output_bytes)
        for i in range(calls):
            kept.append(call(*sets[i % many]))
            if len(kept) >= most:
                kept.pop(0)

    @contextlib.contextmanager
    def _timing(self) -> Iterator[Callable[[Way], float]]:
        """Give what times one sample of a way, microseconds a call."""
        switch = self._switch
        was = _ext.load().enabled()
        try:
            if not self.place.cuda:
                yield self._by_clock
                return
            with self.place.current():
                self._capture_all()
                yield self._by_graph
        finally:
            switch(was)
            self._graphs.clear()
            gc.collect()
            self.place.trim()

    def _by_clock(self, way: Way) -> float:
        """Go on with the sets where the sample before ended: one that began with the first again would find it in the cache."""
        first = self._next
        self._next += 1 + self.inner
        self._switch(way.plans)
        self._run(way, 1, first=first)
        begin = time.perf_counter_ns()
        self._run(way, self.inner, first=first + 1)
        return (time.perf_counter_ns() - begin) / self.inner / 1e3

    def _by_graph(self, way: Way) -> float:
        raw, stream = self._graphs[way.name].raw_cuda_graph_exec(), self._stream.cuda_stream
        times = _ext.load().graph_time(self.place.ordinal, raw, stream, 1)
        return float(times[0]) / self.inner / 1e3

    def _capture_all(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        for way in list(self.ways):
            try:
                self._graphs[way.name] = self._capture(way)
            except NotCaptured as e:
                self.ways.remove(way)
                self.why[way.name] = f"cannot be captured as a graph: {e}"

    def _capture(self, way: Way) -> torch.cuda.CUDAGraph:
        graph, kept = torch.cuda.CUDAGraph(), list[Any]()
        self._switch(way.plans)
        self.place.wait()
        with torch.cuda.stream(self._stream):
            self._run(way, SETTLE)
            self._stream.synchronize()
            try:
                with self.place.capturing(graph, self._pool):
                    self._run(way, self.inner, kept)
            except RuntimeError as e:
                if isinstance(e, torch.OutOfMemoryError):
                    raise
                raise NotCaptured((str(e).splitlines() or [type(e).__name__])[0]) from e
        return graph


class Late(BaseException):
    """The time of a box is over. Not an Exception: a compiler that catches those of its choices must not catch this."""


@contextlib.contextmanager
def boxed(seconds: float) -> Iterator[None]:
    """Raise Late in the block when it takes longer, and again every second until it has ended."""

    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def warm_up(place: Place) -> None:
    """Have torch.compile load what it needs, and start what it starts once a process, before the time of a case runs."""
    one = torch.ones(1 << 20, device=place.device)
    made = torch.compile(lambda x: (x * 3).sum(), mode="max-autotune-no-cudagraphs", dynamic=False)
    made(one)
    place.wait()
    torch._dynamo.reset()


def take_turns(place: Place) -> None:
    """Have Inductor time its choices while nobody else uses the device: other children of the bench may search there. What a compiled call runs once,
    when it is compiled, is not kept apart: it is one call."""
    from torch._inductor.runtime.benchmarking import benchmarker

    def in_turn(timed: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _turns.alone(place):
                return timed(*args, **kwargs)

        return wrapped

    for name in ("benchmark", "benchmark_gpu"):
        setattr(benchmarker, name, in_turn(getattr(benchmarker, name)))


def compared(other: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """Return {"ratio", "low", "high"} of other / ours, block by block, with the bounds of the median's 95 % interval."""
    found = _measure.median_interval([o / k for o, k in zip(other, ours, strict=True)])
    return {"ratio": round(found.median, 4), "low": round(found.low, 4), "high": round(found.high, 4)}


def warm_of(times: dict[str, list[float]], why: dict[str, str]) -> dict[str, Any]:
    """Return the ratio of warm data, null where one of the two times is missing."""
    if not {"eager", "kernelforge"} <= times.keys():
        why.setdefault("warm", "one of the two times is missing")
        return {"warm_ratio": None, "warm_low": None}
    warm = compared(times["eager"], times["kernelforge"])
    return {"warm_ratio": warm["ratio"], "warm_low": warm["low"]}


def without_neighbours(times: dict[str, list[float]], why: dict[str, str]) -> dict[str, list[float]]:
    """Return the times without what the neighbours take alone, block by block. One that is lost in their noise is left out, and `why` says so.

    Example:
        >>> without_neighbours({"around": [5.0, 6.0], "eager": [7.0, 9.0]}, {})
        {'eager': [2.0, 3.0]}
    """
    around, found = times["around"], dict[str, list[float]]()
    for way, values in times.items():
        alone = [a - b for a, b in zip(values, around, strict=True)]
        if min(alone) > 0 and way != "around":
            found[way] = alone
        elif way != "around":
            why[way] = "lost in the noise of its neighbours: at times they took longer without it"
    return found
