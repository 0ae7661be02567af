"""Inputs with their references, kept as far as memory allows: any can be made again from the seed. And the digest that names an output.

It owns the limit of memory. Candidates go through a card's cases in the same order again and again, so what came first stays: to drop the oldest for
the newest would drop each case just before it is asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib

import torch

from .._place import Place
from .calls import span
from .cases import Held, Input, Variant, bounds_of

Key = tuple[str, str, int]

_PART = {"host": 4, "cuda": 2}  # of the memory that is free now


class References:
    """The references of one card."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._limit = place.free_bytes() // _PART[place.target]
        self._held: dict[Key, Held] = {}
        self._bytes = 0
        self._last: tuple[Key, Held] | None = None  # a case's runs follow each other

    def get(self, name: str, variant: Variant, item: Input, *, keep: bool = True) -> Held:
        """Return inputs and bounds of one case. name: of the variant in its card; keep: it will be asked for again, after others."""
        key = (name, item.kind, item.number)
        if key in self._held:
            return self._held[key]
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # its memory is needed for the next
        tensors = variant.draw(item.kind, item.number)
        found: Held = (
            tensors,
            bounds_of(variant.overload, variant.arguments(tensors), item.kind, variant.off),
        )
        size = sum(x.nbytes for part in found for x in part)
        if keep and self._bytes + size <= self._limit:
            self._held[key] = found
            self._bytes += size
        else:
            self._last = (key, found)
        self._place.leave_room()  # float64 leaves much behind in torch's cache
        return found

    def clear(self, *, limit: int | None = None) -> None:
        """Forget everything. limit: bytes to hold from now on."""
        self._held.clear()
        self._last, self._bytes = None, 0
        self._limit = self._limit if limit is None else limit


class Digests:
    """Digests of outputs, by case. Most candidates of most operators give eager's bits: their digest is made once a case."""

    def __init__(self) -> None:
        self._of_eager: dict[int, str] = {}

    def of(self, case: int, outputs: list[torch.Tensor], *, as_eager: bool) -> str:
        """Return the digest of a case's outputs. as_eager: they have eager's bits, which are the same each time that the case is run."""
        if not as_eager:
            return digest_of(outputs)
        if case not in self._of_eager:
            self._of_eager[case] = digest_of(outputs)
        return self._of_eager[case]


def digest_of(outputs: list[torch.Tensor]) -> str:
    """Return the SHA-256 of the outputs' bytes, in order; of a device's tensors, of sums over their words, so that little crosses the bus."""
    total = hashlib.sha256()
    for out in outputs:
        if out.is_cuda:
            whole = span(
                out
            )  # as it lies, where nothing lies between: another order costs a pass over memory
            total.update(repr(_sums(whole if whole.numel() == out.numel() else out.contiguous())).encode())
            continue
        dense = out.contiguous()
        with contextlib.suppress(ValueError):  # an empty tensor has no address
            total.update((ctypes.c_char * dense.nbytes).from_address(dense.data_ptr()))
    return total.hexdigest()


def _sums(dense: torch.Tensor) -> list[int]:
    """Return two sums of a tensor's words modulo 2^64, the second one weighted by place, so that a swap shows."""
    size = dense.element_size()
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    flat = dense.reshape(-1).view(word)
    whole = flat.numel() * size // 8 * 8 // size
    parts = [flat[:whole].view(torch.int64), flat[whole:].to(torch.int64)]
    rows = parts[0].numel() // _ROW if parts[0].numel() >= _LARGE else 0
    rest = parts[0][rows * _ROW :]
    sums = [_weighted(rest if whole == flat.numel() else torch.cat([rest, parts[1]]), rows * _ROW)]
    if rows:
        # Of a table the weights are those of the rows and of the columns, so that none is made for each word: a third of the way through memory.
        table = parts[0][: rows * _ROW].view(rows, _ROW)
        first, across = _weighted(table.sum(1), 0), _weighted(table.sum(0), 0)
        sums.append(torch.stack([first[0], _ROW * (first[1] - first[0]) + across[1]]))
    found: list[int] = torch.stack(sums).sum(0).tolist()
    return [flat.numel(), *found]


_ROW, _LARGE = 4096, 1 << 23  # words; what is smaller costs its launches


def _weighted(words: torch.Tensor, before: int) -> torch.Tensor:
    """Return the sum of words and the sum of words times 2 i + 1, i counted from `before`."""
    weights = torch.arange(2 * before + 1, 2 * (before + words.numel()) + 1, 2, device=words.device)
    return torch.stack([words.sum(), (words * weights).sum()])
