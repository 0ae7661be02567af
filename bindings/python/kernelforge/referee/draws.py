"""New inputs for a variant: like the captured ones, with row scales of their own, special values, exact integers.

It owns chance (a seeded generator, on the device of the data) and the shape of data. Every draw keeps a slot's sizes, strides and type, and what the operator needs of its
range: a slot that was never negative stays so (variances, probabilities), masks and integers stay within what was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from . import specials
from .calls import DTYPES, extent
from .rule import CANCEL_LEAST, PROBE_LIMIT, UNIT


@dataclass(frozen=True)
class Moments:
    """What a captured tensor looked like, its finite values only. zeros: the part that is exactly 0. low, high: of integers exact, as int."""

    mean: float = 0.0
    std: float = 1.0
    low: float = -4.0
    high: float = 4.0
    zeros: float = 0.0

    @staticmethod
    def of(t: torch.Tensor | None) -> Moments:
        """Return the moments of a tensor; a standard normal's where there is none to see."""
        if t is None:
            return Moments()
        x = t.detach().reshape(-1).double()
        finite = torch.isfinite(x)
        if not bool(finite.all()):  # most are, and choosing takes longer than all that follows
            x = x[finite]
        if x.numel() == 0:
            return Moments()
        zeros = float((x == 0).double().mean())
        ends = x if t.is_floating_point() else t  # float64 holds integers up to 2^53
        return Moments(
            float(x.mean()), float(x.std(correction=0)), ends.min().item(), ends.max().item(), zeros
        )


class Slot:
    """One tensor of a call: what it is, and how to draw values for it.

    read  False for what the call only overwrites.
    """

    def __init__(self, name: str, descriptor: dict[str, Any], *, read: bool) -> None:
        self.name, self.read = name, read
        self.dtype = DTYPES[descriptor["dtype"]]
        self.sizes: list[int] = descriptor["sizes"]
        self.strides: list[int] = descriptor["strides"]
        # Dimensions of stride 0 hold one element, however often it is seen.
        self.narrow = [1 if s == 0 else n for n, s in zip(self.sizes, self.strides, strict=True)]
        self.numel = math.prod(self.sizes)
        self.extent = extent(self.sizes, self.strides)
        self.bytes = self.extent * self.dtype.itemsize
        self.overlaps = self._overlaps()

    def _overlaps(self) -> bool:
        """Whether two elements may lie at one address, dimensions of stride 0 aside (a sliding window)."""
        reach = 0
        for stride, size in sorted((s, n) for n, s in zip(self.narrow, self.strides, strict=True) if n > 1):
            if stride <= reach:
                return True
            reach += (size - 1) * stride
        return False

    def place(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (of the narrow sizes) in new memory with the slot's strides; where addresses overlap, one of the values stays."""
        room = torch.zeros(self.extent, dtype=self.dtype, device=values.device)
        if self.overlaps:
            index = torch.arange(self.extent, device=values.device).as_strided(self.narrow, self.strides)
            room[index.reshape(-1)] = values.to(self.dtype).reshape(-1)
        elif self.extent:
            room.as_strided(self.narrow, self.strides).copy_(values)
        return room.as_strided(self.sizes, self.strides)

    def zeros(self, device: str = "cpu") -> torch.Tensor:
        return torch.zeros(self.extent, dtype=self.dtype, device=device).as_strided(self.sizes, self.strides)

    def like(self, moments: Moments, chance: torch.Generator, *, spread: bool = False) -> torch.Tensor:
        """Return values like the captured ones.

        spread: multiply each row (along the first two dimensions) by its own factor between 1/8 and 8 and shift it, so that no row's error
            hides another's.
        """
        m, sizes = moments, self.narrow
        if self.dtype is torch.bool:
            part = min(max(m.mean, 0.05), 0.95)
            return self.place(torch.rand(sizes, generator=chance, device=chance.device) < part)
        if not self.dtype.is_floating_point:
            info = torch.iinfo(self.dtype)
            low, high = (min(max(int(end), info.min), info.max) for end in (m.low, m.high))
            return self.place(_integers(low, high, sizes, chance))
        x = _normal(sizes, chance)
        if m.std > 0:
            x = x * m.std + m.mean
        elif m.mean != 0:  # one value everywhere, such as a fresh weight of 1
            x = (_uniform(sizes, chance) + 0.5) * m.mean
        else:
            x = x * 0.5
        if spread and len(sizes) > 1:
            rows = [n if d < min(2, len(sizes) - 1) else 1 for d, n in enumerate(sizes)]
            x = x * torch.exp2(_uniform(rows, chance) * 6 - 3)
            if m.low < 0 < m.high:
                x = x + m.std * _normal(rows, chance)
        if m.low >= 0:  # folded, not cut: a cut would pile up at the end of the range
            x = x.abs().clamp(min=m.low / 8)
        if m.high <= 0 and m.std > 0:
            x = -x.abs()
        if not spread and m.std > 0:
            x = x.clamp(m.low, m.high)
        if m.zeros > 0.02 and m.std > 0:
            x = torch.where(_uniform(sizes, chance) < m.zeros, 0.0, x)
        return self.place(x)

    def harder(self, moments: Moments, chance: torch.Generator, number: int) -> torch.Tensor:
        """Return draws that tell more apart than those like the captured ones: 0 of one sign, so that sums do not cancel; 1 far from zero; others as `like`."""
        values = self.like(moments, chance, spread=number == 2)
        if not self.dtype.is_floating_point or number == 2:
            return values
        sign = -1.0 if moments.high <= 0 else 1.0
        size = values[tuple(slice(0, n) for n in self.narrow)].double().abs()
        if number == 1:
            size = size + 8 * (moments.std or abs(moments.mean) or 1.0)
        return self.place(sign * size.clamp(max=torch.finfo(self.dtype).max))

    def integers(self, moments: Moments, chance: torch.Generator) -> torch.Tensor:
        """Return small integers, exact in every type and in their sums."""
        if not self.dtype.is_floating_point:
            return self.like(moments, chance)
        low = 0 if moments.low >= 0 else -PROBE_LIMIT
        return self.place(_integers(low, PROBE_LIMIT, self.narrow, chance))

    def cancels(self, lines: specials.Lines) -> bool:
        """Whether `cancelling` has something to show: a half type, and rows that are neither short nor longer than float32 can add up exactly."""
        length = specials.line_shape(self.narrow, lines)[2]
        return length >= CANCEL_LEAST and _cancelling_most(self.dtype, length) >= CANCEL_LEAST

    def cancelling(self, lines: specials.Lines, chance: torch.Generator, *, mean: bool) -> torch.Tensor:
        """Return integers whose rows add up to a small one, or have it as their mean, though sums on the way need more bits than the type has.

        In float32 all of it is exact, in every order and with every compensation; a sum that is kept in the half type is not, on any row.
        """
        order, rows, length = specials.line_shape(self.narrow, lines)
        most, device = _cancelling_most(self.dtype, length), chance.device
        pairs = _integers(-most, most, [rows, length // 2], chance)
        values = torch.cat([pairs, -pairs, pairs.new_zeros(rows, length % 2)], 1)
        signs = _integers(0, 1, [rows, 1], chance) * 2 - 1
        # A mean of 1, since the next numbers are nearest there: an error of the sum is divided by the length.
        small = 1 if mean else _integers(1, PROBE_LIMIT - 1, [rows, 1], chance)
        values[:, : length if mean else 1] += signs * small
        values = values[:, torch.randperm(length, generator=chance, device=device)]
        back = [order.index(d) for d in range(len(order))]
        return self.place(values.reshape([self.narrow[d] for d in order]).permute(back))

    def rows(self, lines: specials.Lines) -> int:
        """Return over how many rows special values are laid."""
        return specials.line_shape(self.narrow, lines)[1]

    def special(
        self, lines: specials.Lines, number: int, chance: torch.Generator, *, guarded: bool
    ) -> torch.Tensor:
        """Return the special values of case `number`. guarded: see `specials.Range`."""
        shift = number * specials.step_for(self.rows(lines))
        ends = specials.Range.of(self.dtype, guarded)
        return self.place(specials.special(_normal(self.narrow, chance), lines, ends, shift, chance))


def _cancelling_most(dtype: torch.dtype, length: int) -> int:
    """Return the largest integer to be added: with a small one beside it exact in the type, and all of a row's exact in float32."""
    if dtype not in (torch.float16, torch.bfloat16):
        return 0
    return min(int(1 / UNIT[dtype]), int(1 / UNIT[torch.float32]) // max(length, 1)) - PROBE_LIMIT


def _normal(sizes: list[int], chance: torch.Generator) -> torch.Tensor:
    return torch.randn(sizes, generator=chance, dtype=torch.float64, device=chance.device)


def _uniform(sizes: list[int], chance: torch.Generator) -> torch.Tensor:
    return torch.rand(sizes, generator=chance, dtype=torch.float64, device=chance.device)


def _integers(low: int, high: int, sizes: list[int], chance: torch.Generator) -> torch.Tensor:
    """Return integers of a closed range. The largest of int64 comes out only alone: randint excludes its end, and that has to be an int64 too."""
    if low == high:
        return torch.full(sizes, low, device=chance.device)
    end = min(high + 1, torch.iinfo(torch.int64).max)
    return torch.randint(low, end, sizes, generator=chance, device=chance.device)
