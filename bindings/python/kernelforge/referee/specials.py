"""Special values, laid along rows of an input so that each meets a whole reduction and also stands amid ordinary data.

Eager is the authority for what comes out. One row shows one pattern; the patterns rotate from case to case, so that a tensor with few rows meets
them all in as many cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Range:
    """A type, as the patterns use it: largest value, smallest normal value, logarithm of exp's overflow, distance from 1 to the next."""

    largest: float
    tiny: float
    end: float
    step: float

    @staticmethod
    def of(dtype: torch.dtype, guarded: bool) -> Range:
        """guarded: the rule needs a wider reference, and float64 has none: then 1e150 stands for its largest value, so that no square overflows."""
        info = torch.finfo(dtype)
        largest = 1e150 if guarded and dtype is torch.float64 else info.max
        return Range(largest, info.tiny, math.log(info.max), info.eps)


Lines = tuple[int, ...] | int | None
"""What makes a row: dimensions, a run of so many elements, or None for short runs."""

Pattern = Callable[[torch.Tensor, Range, torch.Generator], torch.Tensor]


def _uniform(rows: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    return torch.rand(rows.shape, generator=chance, dtype=torch.float64, device=rows.device)


def _columns(rows: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """One place in each row."""
    return torch.randint(0, rows.shape[1], (rows.shape[0], 1), generator=chance, device=rows.device)


def _one(value: float) -> Pattern:
    """One element of each row has this value."""

    def pattern(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
        return rows.scatter(1, _columns(rows, chance), value)

    return pattern


def _largest(sign: float) -> Pattern:
    return lambda rows, ends, chance: _one(sign * ends.largest)(rows, ends, chance)


def _only_one_finite(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
    at = _columns(rows, chance)
    return torch.full_like(rows, -math.inf).scatter(1, at, rows.gather(1, at))


def _denormals(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
    return rows.sign() * _uniform(rows, chance) * ends.tiny


def _near_overflow(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
    """Around the largest argument of exp, and as far below zero: 88.7 in float32, 11.1 in float16."""
    return (ends.end + _uniform(rows, chance) - 0.9) * torch.where(rows < 0, -1.0, 1.0)


def _zeros(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
    return torch.zeros_like(rows).copysign(_uniform(rows, chance) - 0.5)


def _near_constant(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
    """A huge mean with a tiny variance, a few steps of the type: a variance in one pass cancels here."""
    noise = torch.randn(rows.shape, generator=chance, dtype=torch.float64, device=rows.device)
    return 1e4 + max(1e-3, 2e4 * ends.step) * noise


def _ties(rows: torch.Tensor, ends: Range, chance: torch.Generator) -> torch.Tensor:
    return torch.randint(-1, 2, rows.shape, generator=chance, device=rows.device).double()


PATTERNS: dict[str, Pattern] = {
    "a NaN": _one(math.nan),
    "one finite among -inf": _only_one_finite,
    "a largest value": _largest(1.0),
    "near exp's overflow": _near_overflow,
    "all -inf": lambda rows, ends, chance: torch.full_like(rows, -math.inf),
    "huge mean, tiny variance": _near_constant,
    "an inf": _one(math.inf),
    "ties": _ties,
    "denormals": _denormals,
    "a constant row": lambda rows, ends, chance: rows[:, :1].expand_as(rows),
    "a -inf": _one(-math.inf),
    "both zeros": _zeros,
    "scale 1e30": lambda rows, ends, chance: rows * min(1e30, ends.largest / 64),
    "a largest negative value": _largest(-1.0),
    "smallest normal values": lambda rows, ends, chance: rows.sign() * ends.tiny,
    "wide": lambda rows, ends, chance: 16 * (2 * _uniform(rows, chance) - 1),
    "a masked row": lambda rows, ends, chance: torch.full_like(rows, -min(1e9, ends.largest / 64)),
}


def cases_for(rows: int) -> int:
    """Return how many cases show every pattern at least once to a tensor of so many rows, at least two."""
    return max(2, math.ceil(len(PATTERNS) / max(rows, 1)))


def step_for(rows: int) -> int:
    """Return how far the patterns turn from one case to the next: by the rows that the last one showed."""
    return max(1, rows if rows < len(PATTERNS) else 7)


def line_shape(sizes: list[int], lines: Lines) -> tuple[list[int], int, int]:
    """Return (order of the dimensions with the row's last, number of rows, row length)."""
    count = math.prod(sizes)
    if not isinstance(lines, tuple):
        length = max(1, min(64, count) if lines is None else lines)
        while count % length:
            length -= 1
        return list(range(len(sizes))), count // length, length
    inside = sorted(d % len(sizes) for d in lines) if sizes else []
    order = [d for d in range(len(sizes)) if d not in inside] + inside
    length = math.prod(sizes[d] for d in inside)
    return order, count // max(length, 1), length


def special(
    values: torch.Tensor,
    lines: Lines,
    ends: Range,
    shift: int,
    chance: torch.Generator,
) -> torch.Tensor:
    """Return ordinary values with patterns laid over the rows: row r shows pattern r + shift; where rows abound, each fifth stays ordinary.

    values: any floating tensor, taken as the ordinary data; the result has its sizes, in float64.
    ends: of the type, for the patterns.
    """
    order, rows, length = line_shape(list(values.shape), lines)
    if rows == 0 or length == 0:
        return values
    moved = values.double().permute(order)
    flat = moved.reshape(rows, length).clone()
    number = torch.arange(rows, device=flat.device)
    abound = rows >= 2 * len(PATTERNS)
    which = ((number - number // 5 if abound else number) + shift) % len(PATTERNS)
    ordinary = (number % 5 == 4) & abound
    for i, pattern in enumerate(PATTERNS.values()):
        mine = ((which == i) & ~ordinary).nonzero().reshape(-1)
        if mine.numel():
            flat[mine] = pattern(flat[mine], ends, chance)
    back = [order.index(d) for d in range(len(order))]
    return flat.reshape(moved.shape).permute(back)
