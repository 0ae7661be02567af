"""How fast a place copies: the roof of operators that only move data.

It owns the measurement of the copy rate at several sizes, and what a call must move. Data that stays in a cache has that cache's rate, so the
roof of a small operator is not the memory's; on a device a small copy also has the time that any kernel takes to start.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._place import HOST, Place

if TYPE_CHECKING:
    from .referee.ruler import Calls

# Bytes moved, read and written together; the largest is beyond every last-level cache that one process sees on today's servers' core complexes.
_SIZES = tuple(1 << n for n in range(15, 29, 2))
_DEVICE_SIZES = tuple(1 << n for n in range(15, 32, 2))  # to 2 GiB, many times an L2
_SAMPLES = 9
_SAMPLE_NS = 200_000.0
_MOST_INNER = 100  # calls in a graph


class Roof:
    """The measured copy rate by size.

    Args:
        sizes: bytes moved, ascending.
        rates: bytes a nanosecond at these sizes.
        start_us: what the smallest copy takes, and so every copy at least.
    """

    def __init__(self, sizes: Sequence[int], rates: Sequence[float], start_us: float = 0.0) -> None:
        self.sizes, self.rates, self.start_us = list(sizes), list(rates), start_us

    def rate(self, size: int) -> float:
        """Return the rate for this many bytes, between measured sizes by the logarithm of the size, outside them the nearest one's.

        Example:
            >>> Roof([1024, 4096], [10.0, 30.0]).rate(2048)
            20.0
        """
        at = bisect.bisect_left(self.sizes, size)
        if at == 0:
            return self.rates[0]
        if at == len(self.sizes):
            return self.rates[-1]
        low, high = self.sizes[at - 1], self.sizes[at]
        part = math.log(size / low) / math.log(high / low)
        return self.rates[at - 1] + part * (self.rates[at] - self.rates[at - 1])

    def us(self, size: int) -> float:
        """Return how long a copy that moves this many bytes takes, in microseconds."""
        return max(size / self.rate(size) / 1e3, self.start_us) if size > 0 else 0.0


def measure(place: Place = HOST) -> Roof:
    """Return the roof of a place, measured once in a process, on the host for each thread count (about a quarter of a second)."""
    import torch

    return _measure(place, 0 if place.cuda else torch.get_num_threads())


@functools.cache
def _measure(place: Place, threads: int) -> Roof:
    import torch

    from .referee.ruler import calls_of

    del threads  # of the key alone
    free = place.free_bytes()
    sizes = [s for s in _DEVICE_SIZES if s <= free // 2] if place.cuda else list(_SIZES)
    rates = []
    for size in sizes:
        source = torch.ones(size // 8, dtype=torch.int32, device=place.device)
        to = torch.zeros_like(source)
        ways = [calls_of(place, "aten::copy_", [[to, source, False]])]
        if (
            place.cuda
        ):  # a driver's copy can be far below a kernel's: 2.8 to 4.2 TB/s on a virtual machine's H200
            ways.append(calls_of(place, "aten::bitwise_not.out", [[source, to]]))
        # The best sample: a roof is what the machine can do when nobody disturbs it.
        rates.append(max(_rate(calls, size, place) for calls in ways))
    place.trim()
    if place.cuda:
        return Roof(sizes, rates, sizes[0] / rates[0] / 1e3)
    # A cache is not slower than what lies behind it; where it seems so, the sample was disturbed.
    falling = list(itertools.accumulate(reversed(rates), max))
    return Roof(sizes, falling[::-1])


def _rate(calls: Calls, size: int, place: Place) -> float:
    once = min(calls.eager(3, 1))
    inner = max(1, min(int(_SAMPLE_NS / max(once, 1.0)), _MOST_INNER if place.cuda else 1 << 20))
    return size / min(calls.eager(_SAMPLES, inner))


_ITEM = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
}


def bytes_of(call: dict[str, Any]) -> int:
    """Return the bytes that a call must move: each distinct element that it reads once, each output once."""
    from .referee.calls import overload, slot_descriptors

    overwritten = overload(call["overload"]).overwritten
    read = sum(_size(d) for name, d in slot_descriptors(call) if name not in overwritten)
    return read + sum(_size(o) for o in call["outputs"])


def _size(descriptor: dict[str, Any]) -> int:
    """Bytes of the distinct elements; a dimension of stride 0 shows one element many times."""
    dims = zip(descriptor["sizes"], descriptor["strides"], strict=True)
    distinct = math.prod(1 if stride == 0 and n > 0 else n for n, stride in dims)
    return _ITEM[descriptor["dtype"]] * int(distinct)
