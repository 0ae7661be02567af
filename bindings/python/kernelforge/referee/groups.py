"""Which elements share an error: rows that share a reduction, or, for pointwise operators, elements whose input has one sign and binade.

A group gives each of its elements the largest error that eager shows in it. Groups of fewer than GROUP_MIN elements take in their neighbours.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch

from .rule import GROUP_MIN


class Groups(Protocol):
    """A partition of a tensor's elements. `amax` and `sum` give one value a group; `expand` gives each element its group's value."""

    def amax(self, t: torch.Tensor) -> torch.Tensor: ...
    def sum(self, t: torch.Tensor) -> torch.Tensor: ...
    def expand(self, per_group: torch.Tensor) -> torch.Tensor: ...


class Rows:
    """Groups that are all elements along some dimensions of a view of the tensor."""

    def __init__(self, view: tuple[int, ...], dims: tuple[int, ...]) -> None:
        self._view = view
        self._dims = tuple(sorted(d % len(view) for d in dims)) if view else ()
        outside = [d for d in reversed(range(len(view))) if d not in self._dims]
        while outside and math.prod(view[d] for d in self._dims) < GROUP_MIN:
            self._dims = tuple(sorted((*self._dims, outside.pop(0))))
        self._shape: tuple[int, ...] = view

    def amax(self, t: torch.Tensor) -> torch.Tensor:
        self._shape = tuple(t.shape)
        if not self._dims or t.numel() == 0:
            return t.reshape(self._view)
        return t.reshape(self._view).amax(self._dims, keepdim=True)

    def sum(self, t: torch.Tensor) -> torch.Tensor:
        return t.reshape(self._view).sum(self._dims, keepdim=True) if self._dims else t.reshape(self._view)

    def expand(self, per_group: torch.Tensor) -> torch.Tensor:
        return per_group.expand(self._view).reshape(self._shape)


class Buckets:
    """Groups by sign and binade of the input: a large value buys no slack for small ones."""

    def __init__(self, x: torch.Tensor) -> None:
        self._shape = tuple(x.shape)
        value = x.detach().double()
        exponent = torch.frexp(torch.where(torch.isfinite(value), value, 0.0)).exponent.to(torch.int64)
        key = torch.where(
            value == 0, 0, torch.where(value < 0, -1, 1) * (exponent + 1200)
        )  # float64's exponents are above -1075
        self._index, self._count = _merge(key.reshape(-1))

    def amax(self, t: torch.Tensor) -> torch.Tensor:
        room = torch.zeros(self._count, dtype=t.dtype)
        return room.scatter_reduce_(0, self._index, t.reshape(-1), "amax")

    def sum(self, t: torch.Tensor) -> torch.Tensor:
        return torch.zeros(self._count, dtype=t.dtype).scatter_add_(0, self._index, t.reshape(-1))

    def expand(self, per_group: torch.Tensor) -> torch.Tensor:
        return per_group[self._index].reshape(self._shape)


def _merge(key: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Number the keys in order, joining neighbours of one sign until each group has GROUP_MIN elements."""
    keys, place, counts = torch.unique(key, sorted=True, return_inverse=True, return_counts=True)
    number: list[int] = []
    for positive in (False, True):
        group, held = (number[-1] if number else -1), GROUP_MIN
        first = group + 1
        mine = [n for k, n in zip(keys.tolist(), counts.tolist(), strict=True) if (k > 0) == positive]
        for n in mine:
            if held >= GROUP_MIN:
                group, held = group + 1, 0
            number.append(group)
            held += n
        if mine and held < GROUP_MIN and group > first:  # the last group is small: it joins the one before
            number = [group - 1 if g == group else g for g in number]
    return torch.tensor(number, dtype=torch.int64)[place], (number[-1] + 1 if number else 0)
