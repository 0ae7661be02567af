"""Which elements share an error: rows that share a reduction, or, for pointwise operators, elements whose input has one sign and binade.

A group gives each of its elements the largest error that eager shows in it. Groups of fewer than GROUP_MIN elements take in their neighbours.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch

from .rule import GROUP_MIN


class Groups(Protocol):
    """A partition of a tensor's elements. `amax` and `sum` give one value a group; `expand` gives each element its group's value.

    shared: whether one error (of a mean, of a sum) moves all elements of a group, so that they are one sample and not many.
    """

    shared: bool

    def amax(self, t: torch.Tensor) -> torch.Tensor: ...
    def sum(self, t: torch.Tensor) -> torch.Tensor: ...
    def expand(self, per_group: torch.Tensor) -> torch.Tensor: ...


class Rows:
    """Groups that are all elements along some dimensions of a view of the tensor."""

    shared = True

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


_KEYS = 2400  # exponents of float64 lie within 1200 of 0; one key each for both signs


class Buckets:
    """Groups by sign and binade of the input: a large value buys no slack for small ones."""

    shared = False

    def __init__(self, x: torch.Tensor) -> None:
        self._shape = tuple(x.shape)
        value = x.detach().double().reshape(-1)
        exponent = torch.frexp(torch.where(torch.isfinite(value), value, 0.0)).exponent.to(torch.int64)
        # Negative numbers from the largest on, zero, positive numbers: neighbours in this order are neighbours in size.
        key = _KEYS + value.sign().nan_to_num().to(torch.int64) * (exponent + _KEYS // 2)
        table, self._count = _merge(torch.bincount(key, minlength=2 * _KEYS).tolist())
        self._index = torch.tensor(table, dtype=torch.int64)[key]

    def amax(self, t: torch.Tensor) -> torch.Tensor:
        room = torch.zeros(self._count, dtype=t.dtype)
        return room.scatter_reduce_(0, self._index, t.reshape(-1), "amax")

    def sum(self, t: torch.Tensor) -> torch.Tensor:
        return torch.zeros(self._count, dtype=t.dtype).scatter_add_(0, self._index, t.reshape(-1))

    def expand(self, per_group: torch.Tensor) -> torch.Tensor:
        return per_group[self._index].reshape(self._shape)


def _merge(counts: list[int]) -> tuple[list[int], int]:
    """Number the keys in order, joining neighbours of one sign until each group has GROUP_MIN elements; return key -> group and how many groups."""
    table, groups = [0] * len(counts), 0
    for keys in (range(_KEYS + 1), range(_KEYS + 1, len(counts))):
        first, held = groups, GROUP_MIN
        for key in keys:
            if counts[key] == 0:
                continue
            if held >= GROUP_MIN:
                groups, held = groups + 1, 0
            table[key] = groups - 1
            held += counts[key]
        if held < GROUP_MIN and groups - first > 1:  # the last group is small: it joins the one before
            table = [
                groups - 2 if table[k] == groups - 1 and k in keys and counts[k] else g
                for k, g in enumerate(table)
            ]
            groups -= 1
    return table, groups
