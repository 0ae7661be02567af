"""The changed input: a variant's first one with a single element changed, so far that the right output is another.

It owns which element, and by how much. A kernel that recognises an input by what it samples of it, or an output by what it finds there, takes the changed
one for the first: workspace and outputs are left as the first one left them. Both numbers of an input are drawn anew for every candidate, by the
system's chance and not by the run's seed, so that no sample can be made to cover them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from .draws import Moments, Slot

KIND = "changed"
NUMBERS = (0, 1)
"""Even numbers change the data, odd ones any input: a weight, a bias, an index."""

TRIES = 12
"""Draws until one is found whose right output differs by more than is allowed: a maximum may hide a smaller element, a mean over many a small change."""

_BINADES = (3, 6, 9, 12)
"""The change in deviations of the data, as powers of two: at 2^3 a mean over 10^7 elements in float32 shows it, 2^12 a mean of as many in a half type."""


def another(number: int) -> int:
    """Return the number of another draw of the same kind, by chance that no seed tells."""
    return 2 * secrets.randbelow(1 << 30) + number % 2


def change(
    slots: Sequence[Slot],
    moments: Sequence[Moments],
    tensors: Sequence[torch.Tensor],
    number: int,
    chance: torch.Generator,
) -> list[torch.Tensor]:
    """Return the tensors with one element changed, the same one each time for the same number and state of chance."""
    changed = list(tensors)
    able = [i for i, s in enumerate(slots) if s.read and s.numel and _free(s, moments[i])]
    if not able:
        return changed
    if number % 2 == 0:
        largest = max(slots[i].numel for i in able)
        able = [i for i in able if slots[i].numel == largest]
    i = able[_below(len(able), chance)]
    slot, like = slots[i], moments[i]
    values = tensors[i][tuple(slice(0, n) for n in slot.narrow)]
    at = tuple(_below(n, chance) for n in slot.narrow)
    made = slot.place(values)
    made[at] = _other(values[at], like, slot.dtype, chance)
    changed[i] = made
    return changed


def _free(slot: Slot, moments: Moments) -> bool:
    """Whether an element can have another value: integers stay within what was seen."""
    return slot.dtype.is_floating_point or slot.dtype is torch.bool or moments.low < moments.high


def _below(end: int, chance: torch.Generator) -> int:
    return int(torch.randint(0, end, (1,), generator=chance, device=chance.device).item())


def _other(
    old: torch.Tensor, like: Moments, dtype: torch.dtype, chance: torch.Generator
) -> float | bool | int:
    if dtype is torch.bool:
        return not bool(old)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        low, high = max(int(like.low), info.min), min(int(like.high), info.max)
        drawn = low + _below(min(high - low, 1 << 31), chance)
        return drawn if drawn < int(old) else drawn + 1  # any of the range but the old one
    sign = 1 - 2 * _below(2, chance)
    size = (like.std or abs(like.mean) or 1.0) * 2.0 ** _BINADES[_below(len(_BINADES), chance)]
    before = float(old) if bool(torch.isfinite(old)) else 0.0
    new = before + sign * size
    if like.low >= 0:  # variances, probabilities
        new = abs(before + size)
    if like.high <= 0:
        new = -abs(before - size)
    end = torch.finfo(dtype).max / 4
    return min(max(new, -end), end)
