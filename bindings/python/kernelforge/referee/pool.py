"""Memory for timing: many input sets that rotate, so that no run finds its data in a cache because the last run left it there.

On a device the sets together read at least five times its L2; on the host twice the last cache, as far as memory may be spent on it.

It owns how many sets there are and where they lie. One slab for each input slot of a card, shared by its variants: their types agree and their values
come from the captured data, tiled. It refuses correctness: nothing is compared here.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import torch

from .._place import HOST, Place
from .draws import Slot
from .memory import next_id, shared

_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_TIMES = 2  # the sets together are this many times the last cache
_MOST_SETS = 32  # a tensor so small that these do not leave the cache is found there in a model, too
_LEAST_SETS = 2
_MOST_BYTES = 256 << 20
_DEVICE_TIMES, _DEVICE_MOST_SETS = 5, 128
_LINE, _DEVICE_LINE = 64, 512  # torch's own alignment on the host and on a device


@functools.cache
def last_level_cache() -> int:
    """Return the size of the last cache in bytes, 32 MiB where the machine does not tell."""
    best = (0, 0)
    for index in sorted(_CACHE.glob("index*")):
        try:
            level = int((index / "level").read_text())
            size = re.fullmatch(r"(\d+)K", (index / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if size:
            best = max(best, (level, int(size.group(1)) << 10))
    return best[1] or 32 << 20


@functools.cache
def _device_cache(place: Place) -> int:
    return int(place.info()["l2_bytes"]) or 64 << 20


def sets_for(size: int, place: Place = HOST) -> int:
    """Return how many input sets of so many bytes rotate."""
    if place.cuda:
        room, most = _DEVICE_TIMES * _device_cache(place), _DEVICE_MOST_SETS
    else:
        room, most = min(_TIMES * last_level_cache(), _MOST_BYTES), _MOST_SETS
    return max(_LEAST_SETS, min(most, -(-room // max(size, 1))))


class Slab:
    """The mapping of one input slot of a card."""

    def __init__(self, size: int, sample: torch.Tensor, place: Place, *, writable: bool) -> None:
        self.id, self.writable = next_id(), writable
        self._buffer: Any = shared(size, place)
        self.bytes, self.fd = int(self._buffer.bytes), int(self._buffer.fd)
        whole = self._buffer.tensor(0, sample.dtype, [self.bytes // sample.dtype.itemsize], [1])
        flat = sample.reshape(-1)[
            : whole.numel()
        ]  # a sample with dimensions of stride 0 has more elements than memory
        times = whole.numel() // flat.numel()
        whole[: times * flat.numel()].view(times, -1).copy_(flat)
        whole[times * flat.numel() :].copy_(flat[: whole.numel() - times * flat.numel()])
        self._buffer.push()
        place.wait()  # if the next slab finds no room, this one goes at once, and nothing may run on it then

    def view(self, offset: int, slot: Slot) -> torch.Tensor:
        return self._buffer.tensor(offset, slot.dtype, slot.sizes, slot.strides)  # type: ignore[no-any-return]


class Pool:
    """The slabs of one card.

    Args:
        variants: per variant id its input slots.
        samples: per input slot values to fill with.
        writable: per input slot whether a call writes to it.
        place: where they lie.
    """

    def __init__(
        self,
        variants: dict[str, list[Slot]],
        samples: list[torch.Tensor],
        writable: list[bool],
        place: Place = HOST,
    ) -> None:
        self._variants, self._line = variants, _DEVICE_LINE if place.cuda else _LINE
        self._counts = {v: sets_for(sum(s.bytes for s in slots), place) for v, slots in variants.items()}
        self.slabs = []
        for i, (sample, write) in enumerate(zip(samples, writable, strict=True)):
            size = max(self._counts[v] * self._stride(slots[i]) for v, slots in variants.items())
            self.slabs.append(Slab(size, sample, place, writable=write))

    def places(self, variant: str, aliases: list[int]) -> list[list[dict[str, int] | None]]:
        """Return the sets as a worker's slots: outputs that are allocated are None, an output that is an input has its place."""
        found = []
        for number in range(self._counts[variant]):
            inputs = [
                {"buffer": slab.id, "offset": number * self._stride(slot)}
                for slab, slot in zip(self.slabs, self._variants[variant], strict=True)
            ]
            found.append([*inputs, *(inputs[a] if a >= 0 else None for a in aliases)])
        return found

    def tensors(self, variant: str) -> list[list[torch.Tensor]]:
        """Return the sets as tensors on the same memory."""
        slots = self._variants[variant]
        return [
            [
                slab.view(number * self._stride(slot), slot)
                for slab, slot in zip(self.slabs, slots, strict=True)
            ]
            for number in range(self._counts[variant])
        ]

    def _stride(self, slot: Slot) -> int:
        return max(-(-slot.bytes // self._line) * self._line, self._line)
