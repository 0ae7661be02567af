"""Outputs of an earlier run where the next one writes: right already, but for an element, a row or the end, which hold poison.

It owns which elements these are, by the system's chance: a kernel that looks at some of what it finds, and ends early where that looks right, misses
them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import torch

Part = Callable[[torch.Tensor], torch.Tensor]

PATTERNS: Final = 2
"""Of poison everywhere (`memory.py`): 0 and 1. The numbers from here on are those of PARTS."""

TAIL: Final = 64
"""Elements at most: less than a block of threads, a grain of the pool or a page has."""


def _element(out: torch.Tensor) -> torch.Tensor:
    return torch.tensor([secrets.randbelow(out.numel())], device=out.device)


def _row(out: torch.Tensor) -> torch.Tensor:
    length = out.shape[-1] if out.dim() else 1
    return torch.arange(length, device=out.device) + length * secrets.randbelow(out.numel() // length)


def _tail(out: torch.Tensor) -> torch.Tensor:
    return torch.arange(max(0, out.numel() - 1 - secrets.randbelow(TAIL)), out.numel(), device=out.device)


PARTS: Final[dict[int, tuple[str, Part]]] = {
    PATTERNS: ("one element", _element),
    PATTERNS + 1: ("one row", _row),
    PATTERNS + 2: ("its end", _tail),
}
"""By the number of the pattern: which part of an output is poison, in words, and the numbers of its elements, row after row."""
