"""The processes of bench/guard.py that make calls, as their parent begins and ends them. What they say is guard.py's."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class Children:
    """The children of all lanes. A Ctrl-C on a terminal is not theirs: one that it ended would count as a crash."""

    def __init__(self) -> None:
        self.ended = False
        self._all: list[subprocess.Popen[str]] = []

    def begin(self, command: Sequence[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, errors="replace", process_group=0
        )
        self._all.append(child)
        if self.ended:
            child.kill()
        return child

    def end(self) -> None:
        """End them; what they were about is made again by a later run."""
        self.ended = True
        for child in list(self._all):
            child.kill()
