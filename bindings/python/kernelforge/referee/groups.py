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
    nbytes: memory that it holds, about.
    """

    shared: bool
    nbytes: int

    def amax(self, t: torch.Tensor) -> torch.Tensor: ...
    def sum(self, t: torch.Tensor) -> torch.Tensor: ...
    def expand(self, per_group: torch.Tensor) -> torch.Tensor: ...


class Rows:
    """Groups that are all elements along some dimensions of a view of the tensor."""

    shared, nbytes = True, 0

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
    """Groups by sign and binade of the input: a large value buys no slack for small ones.

    chunked: how groups are reduced; default: as suits the device of x.
    """

    shared = False

    def __init__(self, x: torch.Tensor, chunked: bool | None = None) -> None:
        self._shape = tuple(x.shape)
        value = x.detach().double().reshape(-1)
        exponent = torch.frexp(torch.where(torch.isfinite(value), value, 0.0)).exponent.to(torch.int64)
        # Negative numbers from the largest on, zero, positive numbers: neighbours in this order are neighbours in size.
        key = _KEYS + value.sign().nan_to_num().to(torch.int64) * (exponent + _KEYS // 2)
        table, self._count = _merge(torch.bincount(key, minlength=2 * _KEYS).tolist())
        self._index = torch.tensor(table, dtype=torch.int64, device=x.device)[key]
        chunked = x.is_cuda if chunked is None else chunked
        self._chunks = _Chunks(self._index, self._count) if chunked and x.numel() else None
        if chunked:
            self._index = (
                self._index.int()
            )  # half the memory; indexing on the host is quicker with the wide type
        self.nbytes = self._index.nbytes + (self._chunks.nbytes if self._chunks else 0)

    def amax(self, t: torch.Tensor) -> torch.Tensor:
        room = torch.zeros(self._count, dtype=t.dtype, device=t.device)
        if self._chunks is not None:
            return room.scatter_reduce_(0, self._chunks.group, self._chunks.rows(t).amax(1), "amax")
        return room.scatter_reduce_(0, self._index.long(), t.reshape(-1), "amax")

    def sum(self, t: torch.Tensor) -> torch.Tensor:
        room = torch.zeros(self._count, dtype=t.dtype, device=t.device)
        if self._chunks is not None:
            return room.scatter_add_(0, self._chunks.group, self._chunks.rows(t).sum(1))
        return room.scatter_add_(0, self._index.long(), t.reshape(-1))

    def expand(self, per_group: torch.Tensor) -> torch.Tensor:
        return per_group.index_select(0, self._index).reshape(self._shape)


_CHUNK = 4096


class _Chunks:
    """Elements sorted by group and cut into rows of one group each: on a device, millions of threads that add to a few addresses wait for each other.

    group: of each row. Free places of a group's last row are zeros, which change neither a sum nor a maximum of what is not negative.
    """

    def __init__(self, index: torch.Tensor, count: int) -> None:
        sizes = torch.bincount(index, minlength=count)
        rows = (sizes + _CHUNK - 1) // _CHUNK
        order = torch.sort(index.to(torch.int16), stable=True).indices
        shift = (rows.cumsum(0) - rows) * _CHUNK - (sizes.cumsum(0) - sizes)
        place = shift[index[order]] + torch.arange(len(order), device=index.device)
        total = int(rows.sum())
        self._take = torch.full((total * _CHUNK,), len(order), dtype=torch.int32, device=index.device)
        self._take[place] = order.int()
        self.group = torch.repeat_interleave(torch.arange(count, device=index.device), rows)

    @property
    def nbytes(self) -> int:
        return int(self._take.nbytes + self.group.nbytes)

    def rows(self, t: torch.Tensor) -> torch.Tensor:
        return torch.cat([t.reshape(-1), t.new_zeros(1)]).index_select(0, self._take).view(-1, _CHUNK)


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
