"""The memory behind what a call of the guard fuzz is given: where elements lie in it, and what is beside them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Extent(NamedTuple):
    """Where the elements of a tensor lie, in elements of `size` bytes."""

    storage: int
    size: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """Return how many bytes from the storage's begin are within its reach."""
        return (
            self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True)) + 1
        ) * self.size


def plain(t: Any) -> bool:
    return (
        type(t) is torch.Tensor
        and t.layout is torch.strided
        and not (t.is_meta or t.is_nested or t.is_quantized or torch._is_zerotensor(t))
    )


def extents_of(given: list[Any]) -> list[Extent]:
    return [
        Extent(
            g.untyped_storage().data_ptr(), g.element_size(), tuple(g.shape), g.stride(), g.storage_offset()
        )
        for g in given
        if plain(g) and g.numel()
    ]


def unclaimed(t: torch.Tensor, extents: set[Extent]) -> list[torch.Tensor]:
    """Return the bytes behind what was given that no element of it covers or has covered before the call: nobody may write there.

    An output that is resized for a result leaves the elements that it had: what was written there until then is no other than the result was.
    """
    if not plain(t) or t.numel() == 0:
        return []
    storage = t.untyped_storage()
    room = torch.empty(0, dtype=torch.uint8, device=t.device).set_(storage).clone()
    for at in extents:
        if at.storage == storage.data_ptr() and at.end <= storage.nbytes():
            strides = [*(s * at.size for s in at.strides), 1]
            room.as_strided([*at.sizes, at.size], strides, at.offset * at.size).zero_()
    return [room]
