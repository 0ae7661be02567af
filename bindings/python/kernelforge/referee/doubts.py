"""What must not have happened in a run, looked at all together: a device is waited for once, not once a question.

It owns the order of the questions and the one wait. What was found is put into words only where something was.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .calls import flat

_WORD = 8


def differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | bool:
    """Return whether any element of two tensors of integers differs, without waiting for a device; on the host the comparison ends at the first difference."""
    if not a.is_cuda:
        return not torch.equal(a, b)
    a, b = words(a, b)
    return (a != b).any()


def words(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what lies in the memory of two tensors in words of 8 bytes where that is possible, else the tensors: a device compares these in less time,
    and has an eighth to a half as many answers to look through."""
    lines = flat([a, b])
    if lines is None or any(t.numel() * t.element_size() % _WORD or t.data_ptr() % _WORD for t in lines):
        return a, b
    try:
        return lines[0].view(torch.int64), lines[1].view(torch.int64)
    except RuntimeError:  # its storage begins between two words
        return a, b


class Doubts:
    """Questions with the words for a yes, in the order in which they are told."""

    def __init__(self) -> None:
        self._asked: list[tuple[torch.Tensor | bool, Callable[[], str], str]] = []

    def ask(self, found: torch.Tensor | bool, words: Callable[[], str], gate: str) -> None:
        """Add a question. found: True, or a 0-dim tensor that is or will be; words: called only where it is, "" after a closer look that finds nothing; gate:
        what a yes fails."""
        self._asked.append((found, words, gate))

    def first(self) -> tuple[str, str]:
        """Return words and gate of the first question that is answered with yes, or two times ""."""
        waiting = [f for f, _, _ in self._asked if isinstance(f, torch.Tensor)]
        answers = iter(torch.stack(waiting).tolist() if waiting else [])
        for found, words, gate in self._asked:
            if (next(answers) if isinstance(found, torch.Tensor) else found) and (said := words()):
                return said, gate
        return "", ""
