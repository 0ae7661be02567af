"""What must not have happened in a run, looked at all together: a device is waited for once, not once a question.

It owns the order of the questions and the one wait. What was found is put into words only where something was.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | bool:
    """Return whether any element differs, without waiting for a device; on the host the comparison ends at the first difference."""
    return (a != b).any() if a.is_cuda else not torch.equal(a, b)


class Doubts:
    """Questions with the words for a yes, in the order in which they are told."""

    def __init__(self) -> None:
        self._asked: list[tuple[torch.Tensor | bool, Callable[[], str], str]] = []

    def ask(self, found: torch.Tensor | bool, words: Callable[[], str], gate: str) -> None:
        """Add a question. found: True, or a 0-dim tensor that is or will be; words: called only where it is; gate: what a yes fails."""
        self._asked.append((found, words, gate))

    def first(self) -> tuple[str, str]:
        """Return words and gate of the first question that is answered with yes, or two times ""."""
        waiting = [f for f, _, _ in self._asked if isinstance(f, torch.Tensor)]
        answers = iter(torch.stack(waiting).tolist() if waiting else [])
        for found, words, gate in self._asked:
            if next(answers) if isinstance(found, torch.Tensor) else found:
                return words(), gate
        return "", ""
