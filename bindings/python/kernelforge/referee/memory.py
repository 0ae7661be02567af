"""Shared memory in which a candidate runs: one mapping a tensor, guard pages around it, every byte outside the tensor poisoned and checked.

It owns placement, poison and the checks of what was written where, on the host as on a device. The buffers belong to this process; the worker maps
them by descriptor, inputs read-only. It refuses references: those stay in private memory (`cases.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _ext
from .._place import HOST, Place
from .bounds import Compared, bits, place_of
from .calls import copy_into, span
from .doubts import Doubts, differ
from .draws import Slot
from .stale import Part

# Per element size, for two patterns: bits that are a NaN with a payload in every floating type of that size, and bits of a finite number. Neither
# comes out of a computation by chance, and no operator makes both.
_POISON = {
    torch.bool: (0x5A, 0x3C),
    torch.uint8: (0x5A, 0x3C),
    torch.int8: (0x5A, 0x3C),
    torch.int16: (0x5A5A, 0x3C3C),
    torch.int32: (0x5A5A5A5A, 0x3C3C3C3C),
    torch.int64: (0x5A5A5A5A5A5A5A5A, 0x3C3C3C3C3C3C3C3C),
    torch.float16: (0x7E5A, 0x6B3A),
    torch.bfloat16: (0x7FDA, 0x4B3A),
    torch.float32: (0x7FDA5A5A, 0x4B3A5A5A),
    torch.float64: (0x7FFA5A5A5A5A5A5A, 0x433A5A5A5A5A5A5A),
}
_WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_number = itertools.count(1)


def next_id() -> int:
    """Return a number for a buffer, none of which is used twice in a process."""
    return next(_number)


def shared(size: int, place: Place) -> Any:
    """Return a buffer of at least so many bytes that another process can map, never from torch's own memory.

    Raises:
        RuntimeError: the place has no room (`_place.out_of_memory`), or the runtime refuses.
    """
    buffer = _ext.load().Buffer
    return buffer(max(size, 1), place.ordinal) if place.cuda else buffer(max(size, 1))


class Room:
    """One tensor's mapping, used for every input of a variant.

    Args:
        slot: the tensor.
        align: bytes that its address must be a multiple of.
        writable: whether the worker may write to it.
        place: where it lies.
        poison: false, in tests alone: what a run writes holds zeros before it, as fresh memory of a system does.
    """

    def __init__(
        self, slot: Slot, align: int, *, writable: bool, place: Place = HOST, poison: bool = True
    ) -> None:
        self.id = next_id()
        self._poison = _POISON[slot.dtype] if poison else (0, 0)
        self.slot, self.align, self.writable = slot, max(align, slot.dtype.itemsize), writable
        self._buffer: Any = shared(slot.bytes, place)
        self.bytes = int(self._buffer.bytes)
        word = _WORD[slot.dtype.itemsize]
        self._words: torch.Tensor = self._buffer.tensor(0, word, [self.bytes // slot.dtype.itemsize], [1])
        holes = torch.ones(slot.extent, dtype=torch.bool, device=place.device)
        if slot.extent:
            holes.as_strided(slot.narrow, slot.strides).fill_(False)
        self._holes = holes.nonzero().reshape(-1) if bool(holes.any()) else None
        self._placement, self._pattern = "end", 0

    @property
    def fd(self) -> int:
        return int(self._buffer.fd)

    def offset(self, placement: str) -> int:
        """Return where the tensor begins: at the first byte, or so that it ends at the last one that keeps its alignment."""
        return 0 if placement == "start" else (self.bytes - self.slot.bytes) // self.align * self.align

    def load(self, placement: str, pattern: int, values: torch.Tensor | None) -> None:
        """Place values, everything around and between them poisoned; without values, poison is all there is."""
        self._placement, self._pattern = placement, self._poison[pattern]
        if values is None or self._holes is not None or not self.slot.numel:
            self._words.fill_(self._pattern)
        else:
            first = self.offset(placement) // self.slot.dtype.itemsize
            self._words[:first].fill_(self._pattern)
            self._words[first + self.slot.extent :].fill_(self._pattern)
        if values is None or not self.slot.numel:
            return
        if self.slot.overlaps:  # eager refuses to write to such a view
            span(self.view).copy_(span(values))
        else:
            copy_into(self.view, values)

    def old(self, values: torch.Tensor) -> None:
        """Place other values where the tensor lies; what is around it stays."""
        copy_into(bits(self.view), bits(values))

    def poisoned(self, values: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        """Return values with poison in some of them. part: numbers of elements, row after row."""
        flat = bits(values.contiguous()).reshape(-1).clone()
        flat[part] = self._pattern
        return flat.view(values.dtype).reshape(values.shape)

    @property
    def view(self) -> torch.Tensor:
        """The tensor in shared memory."""
        s = self.slot
        return self._buffer.tensor(self.offset(self._placement), s.dtype, s.sizes, s.strides)  # type: ignore[no-any-return]

    def push(self) -> None:
        """Let the worker see what was placed, and `pull` what it made of it: where the memory is one, nothing is to do."""
        self._buffer.push()

    def pull(self) -> None:
        self._buffer.pull()

    def private(self) -> torch.Tensor:
        """Return a copy that nobody else can change."""
        return self.view.clone(memory_format=torch.preserve_format)

    def differs(self, values: torch.Tensor) -> torch.Tensor | bool:
        """Return whether the tensor has other bits than these; each shared element is read once."""
        return differ(bits(self.view), bits(values))

    def suspects(self, values: torch.Tensor) -> torch.Tensor:
        """Return whether any element of a private copy is poison's: seldom, and then `left` has to look whether it may be. It takes as much again."""
        return (bits(values) == self._pattern).any()

    def left(self, values: torch.Tensor, expected: torch.Tensor, *, every_nan: bool = False) -> torch.Tensor:
        """Return which elements of a private copy still are poison, where the expected output does not happen to be.

        every_nan: of an input that holds every NaN there is, the poison's too, which may be written where one is expected: a run over the other
            poison tells, which is none.
        """
        still = bits(values) == self._pattern
        if every_nan:
            still = still & ~(torch.isnan(values) & torch.isnan(expected))
        return still & (bits(expected) != self._pattern)

    def ask_touched(self, doubts: Doubts, where: str) -> None:
        """Ask whether something outside the tensor was written. where: words in front of the answer."""
        first = self.offset(self._placement) // self.slot.dtype.itemsize
        last = first + self.slot.extent
        parts = [("in front of it", self._words[:first]), ("behind it", self._words[last:])]
        if self._holes is not None:
            parts.append(("in the gaps of its strides", self._words[first:last][self._holes]))
        for part, words in parts:
            if words.numel():
                changed = words != self._pattern
                doubts.ask(changed.any(), _counted(changed, where, part), "guard_pages")


def _counted(changed: torch.Tensor, where: str, part: str) -> Callable[[], str]:
    return lambda: f"{where}: {int(changed.sum())} elements {part}"


class Stage:
    """The mappings of one variant's slots, inputs then outputs; an output that aliases an input has that input's.

    Args:
        inputs, outputs: the slots.
        aliases: per output the number of the input slot that it is, or -1.
        align: per input and output slot, bytes.
        place: where they lie.
        poison: of the rooms.
    """

    def __init__(
        self,
        inputs: list[Slot],
        outputs: list[Slot],
        aliases: list[int],
        align: list[int],
        place: Place = HOST,
        *,
        poison: bool = True,
    ) -> None:
        self.inputs = [
            Room(s, align[i], writable=i in aliases, place=place, poison=poison) for i, s in enumerate(inputs)
        ]
        self.outputs = [
            self.inputs[alias]
            if alias >= 0
            else Room(slot, align[len(inputs) + i], writable=True, place=place, poison=poison)
            for i, (slot, alias) in enumerate(zip(outputs, aliases, strict=True))
        ]
        self.fresh = [r for r, alias in zip(self.outputs, aliases, strict=True) if alias < 0]
        self._placement = "end"

    @property
    def slots(self) -> list[Room]:
        return [*self.inputs, *self.outputs]

    @property
    def rooms(self) -> list[Room]:
        """Every mapping once."""
        return [*self.inputs, *self.fresh]

    def load(self, tensors: list[torch.Tensor], placement: str, pattern: int) -> None:
        """Place an input; what a run writes is poisoned."""
        self._placement = placement
        for room, tensor in zip(self.inputs, tensors, strict=True):
            room.load(placement, pattern, tensor if room.slot.read else None)
        for room in self.fresh:
            room.load(placement, pattern, None)

    def push(self) -> None:
        """Let the worker see what was placed."""
        for room in self.rooms:
            room.push()

    def pull(self) -> None:
        """See what the worker made of it."""
        for room in self.rooms:
            room.pull()

    def old(self, outputs: Sequence[torch.Tensor], part: Part | None) -> None:
        """Put an earlier run's outputs where the next one writes, with poison in a part of each. part: gives places of a contiguous tensor's elements."""
        for room, values in zip(self.outputs, outputs, strict=True):
            if room in self.fresh and room.slot.numel:
                room.old(values if part is None else room.poisoned(values, part(values)))

    def again(self, tensors: list[torch.Tensor], pattern: int) -> None:
        """Make the input that is placed ready for another run: what a run writes is poisoned or restored, what it only reads stays."""
        for room, tensor in zip(self.inputs, tensors, strict=True):
            if room.writable:
                room.load(self._placement, pattern, tensor if room.slot.read else None)
        for room in self.fresh:
            room.load(self._placement, pattern, None)

    def ask_written(self, doubts: Doubts) -> None:
        """Ask whether memory around the outputs was written."""
        for room in self.fresh or self.outputs:
            room.ask_touched(doubts, f"memory around `{room.slot.name}` was written")

    def ask_changed(self, doubts: Doubts, tensors: list[torch.Tensor]) -> None:
        """Ask whether an input that may only be read was changed."""
        for room, tensor in zip(self.inputs, tensors, strict=True):
            if not room.writable:
                name = room.slot.name
                doubts.ask(room.differs(tensor), _changed(room, tensor), "inputs")
                room.ask_touched(doubts, f"memory around the input `{name}` was written")


def _changed(room: Room, values: torch.Tensor) -> Callable[[], str]:
    def said() -> str:
        at = _first_of(bits(room.view) != bits(values))
        found, expected = room.view[tuple(at)].item(), values[tuple(at)].item()
        return f"input `{room.slot.name}` was changed, first at {at}: {found} (expected {expected})"

    return said


def unwritten(room: Room, values: torch.Tensor, bound: Compared, every_nan: bool) -> str:
    """Return words for elements of an output that were left as they were, or "". values: a private copy; every_nan: as `Room.left`."""
    left = room.left(values, bound.eager, every_nan=every_nan)
    if not bool(left.any()):
        return ""
    return f"{bound.name}: {int(left.sum())} of {left.numel()} elements were not written, the first at {_first_of(left)}"


def differing(room: Room, out: torch.Tensor, words: str) -> Callable[[], str]:
    """Return words for the first element that has other bits than it had in a private copy."""

    def said() -> str:
        now = room.private()
        at = _first_of(bits(now) != bits(out))
        return f"{room.slot.name}: {words}, first at {at}: {now[tuple(at)].item()} (expected {out[tuple(at)].item()})"

    return said


def _first_of(bad: torch.Tensor) -> list[int]:
    """Return the place of the first element that is True; the last place where none is any more (another process may write on)."""
    return place_of(int(bad.reshape(-1).int().argmax()), bad.shape)
