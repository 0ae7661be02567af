"""Device time of one forward, by operator: what the profiler's kernel records say, given to the hooked call in which each kernel was launched.

While the extension captures, it opens a range named `kf#N` around each captured call, N being the `id` of the call's record. A kernel belongs to the
outermost range that was open where it was launched; one outside of all of them belongs to torch's operator there, which is a row without a card.

Where the profiler sees no kernels (CUPTI is missing, or its use is forbidden), each captured call is timed alone by events instead, and `timed_by` says so.
"""

from __future__ import annotations

import bisect
import contextlib
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _nvml
from ._place import Place

log = logging.getLogger("kernelforge")

RANGE = "kf#"
_MOST = 5  # forwards under the profiler: its records take memory, and kernels vary little
_ALONE_SAMPLES, _ALONE_INNER = 5, 3


@dataclass(frozen=True)
class Launch:
    """An operator or range of one thread, microseconds. device_us: of the kernels launched right in it, not in what it calls."""

    name: str
    thread: int
    start: float
    end: float
    device_us: float = 0.0


@dataclass
class Watched:
    """What a watched pass found.

    records: as from the capture, on a device with its times.
    rest: [{"name", "calls", "self_ns", "hooked"}] of operators, on a device of those that belong to no record.
    attributed: part of the time that has a name.
    timed_by: `clock`, `cupti` or `events`.
    forwards: how many were watched.
    """

    records: list[dict[str, Any]]
    rest: list[dict[str, Any]]
    attributed: float
    timed_by: str
    telemetry: dict[str, Any] | None = None
    forwards: int = 1


@dataclass
class Attribution:
    """Device time by record and by name, microseconds. samples: of each call of a record, in order of launch."""

    samples: dict[int, list[float]] = field(default_factory=dict)
    rest: dict[str, list[float]] = field(default_factory=dict)

    @property
    def named_us(self) -> float:
        return sum(map(sum, (*self.samples.values(), *self.rest.values())))


def attribute(launches: Iterable[Launch]) -> Attribution:
    """Give each launch's device time to the outermost range around it, or to the operator's own name.

    Example:
        >>> a = attribute([Launch("kf#0", 1, 0, 10), Launch("aten::relu", 1, 1, 9, 5.0), Launch("aten::copy_", 1, 20, 21, 2.0)])
        >>> a.samples, a.rest
        ({0: [5.0]}, {'aten::copy_': [2.0]})
    """
    found = Attribution()
    threads: dict[int, list[Launch]] = {}
    for launch in launches:
        threads.setdefault(launch.thread, []).append(launch)
    for mine in threads.values():
        mine.sort(key=lambda x: (x.start, -x.end))
        ranges: list[Launch] = []
        for launch in mine:
            if launch.name.startswith(RANGE) and (not ranges or launch.start >= ranges[-1].end):
                ranges.append(launch)
        starts, sums = [r.start for r in ranges], [0.0] * len(ranges)
        for launch in mine:
            at = bisect.bisect_right(starts, launch.start) - 1
            if at >= 0 and (launch.start < ranges[at].end or launch is ranges[at]):
                sums[at] += launch.device_us
            elif launch.device_us > 0:
                found.rest.setdefault(launch.name, []).append(launch.device_us)
        for r, total in zip(ranges, sums, strict=True):
            number = r.name.removeprefix(RANGE)
            if number.isdecimal():  # `kf#payload` is the capture's own work
                found.samples.setdefault(int(number), []).append(total)
    return found


def launches_of(events: Iterable[Any]) -> tuple[list[Launch], float]:
    """Return the profiler's events as launches, and the device time of all kernels and copies, microseconds."""
    from torch.autograd import DeviceType  # type: ignore[attr-defined]

    launches, total = [], 0.0
    for e in events:
        annotation = e.name.startswith(RANGE)
        if e.device_type == DeviceType.CPU:
            # A range shows on the device as well, as a kernel of its own name: it is none.
            own = sum(k.duration for k in e.kernels if not k.name.startswith(RANGE))
            if own > 0 or annotation:
                launches.append(Launch(e.name, e.thread, e.time_range.start, e.time_range.end, own))
        elif not annotation and not getattr(e, "is_user_annotation", False):
            total += e.time_range.end - e.time_range.start
    return launches, total


def begin(place: Place) -> None:
    """Start the profiler with nothing to see: its first start loads CUPTI, and that is no part of a measurement."""
    with _profiler() as seen:
        if seen is not None:
            place.wait()


def watch(extension: Any, forward: Callable[[], Any], count: int, place: Place) -> Watched:
    """Run forwards under capture and profiler and return what the device did in them."""
    pci = str(place.info()["pci"])
    before = _nvml.read(pci)
    count = min(count, _MOST)
    records, events = _profiled(extension, forward, count, place)
    launches, total_us = launches_of(events)
    found = attribute(launches)
    telemetry = {"before": before, "after": _nvml.read(pci)}
    if total_us <= 0 or not found.samples:
        why = "no kernel was seen" if total_us <= 0 else "no range of the capture was seen"
        log.warning("the profiler cannot tell device times (%s): each call is timed alone, by events", why)
        return _alone(extension, forward, place, telemetry)
    hooked = {o["overload"].partition(".")[0] for o in extension.op_table()}
    rest = [
        {"name": name, "calls": len(times), "self_ns": sum(times) * 1e3, "hooked": name in hooked}
        for name, times in found.rest.items()
    ]
    return Watched(
        _with_times(records, found.samples),
        rest,
        min(1.0, found.named_us / total_us),
        "cupti",
        telemetry,
        count,
    )


def _profiled(
    extension: Any, forward: Callable[[], Any], count: int, place: Place
) -> tuple[list[dict[str, Any]], Sequence[Any]]:
    with _profiler() as seen:
        if seen is None:
            return [], []
        extension.capture_begin(0, 0)
        try:
            for _ in range(count):
                forward()
        finally:
            records: list[dict[str, Any]] = extension.capture_end()
        place.wait()
    return records, seen.events() or []


@contextlib.contextmanager
def _profiler() -> Iterator[Any]:
    """Have torch's profiler watch the device; None where it cannot."""
    from torch.profiler import ProfilerActivity, profile, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():  # type: ignore[no-untyped-call]
        yield None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about cycles of a schedule, and there is none
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            yield seen


def _with_times(records: list[dict[str, Any]], samples: dict[int, list[float]]) -> list[dict[str, Any]]:
    """Return records with device times in place of the host's."""
    timed = []
    for record in records:
        ns = [us * 1e3 for us in samples.get(record["id"], [])]
        timed.append({**record, "samples_ns": ns, "total_ns": sum(ns)})
    return timed


def _alone(extension: Any, forward: Callable[[], Any], place: Place, telemetry: dict[str, Any]) -> Watched:
    """Time every captured call by itself: what a kernel costs beside others is not seen, and neither is what is not hooked."""
    from .referee.calls import clone, map_tensors
    from .referee.reference import eager_only
    from .referee.ruler import calls_of

    extension.capture_begin(1, place.free_bytes() // 4)
    try:
        forward()
    finally:
        records: list[dict[str, Any]] = extension.capture_end()
    timed, whole_ns = [], 0.0
    for record in records:
        ns: list[float] = []
        if record["payloads"]:
            with eager_only():
                sets = [map_tensors(record["payloads"][0], clone)]
            ns = calls_of(place, record["overload"], sets).eager(_ALONE_SAMPLES, _ALONE_INNER)
            whole_ns += record["calls"] * sorted(ns)[len(ns) // 2]
        timed.append({**record, "payloads": [], "samples_ns": ns, "total_ns": sum(ns)})
    share = min(1.0, whole_ns / 1e6 / max(place.forward_ms(forward), 1e-6))
    return Watched(timed, [], share, "events", telemetry)
