"""One line that says how far a search is: bar, time left, best so far. Silent when its stream is not a terminal; plain under NO_COLOR.

It owns the line on stderr and nothing else; stdout belongs to data.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any, TextIO

_REFRESH_S = 0.1
_BAR = 20


class Progress:
    """Shows the `progress` object of a poll (docs/formats.md, `the core library`).

    Args:
        mode: "auto" (only on a terminal), True or False.
        names: card id to a name for people.
    """

    def __init__(
        self, mode: str | bool = "auto", names: dict[str, str] | None = None, stream: TextIO | None = None
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._on = self._is_terminal() if mode == "auto" else bool(mode)
        self._colour = (
            self._on
            and self._is_terminal()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )
        self.names = names or {}
        self._shown = 0.0
        self._width = 0

    def _is_terminal(self) -> bool:
        try:
            return self._stream.isatty()
        except (AttributeError, ValueError):
            return False

    def show(self, progress: dict[str, Any], note: str = "", force: bool = False) -> None:
        """Redraw the line, at most ten times a second unless `force`."""
        now = time.monotonic()
        if not self._on or (not force and now - self._shown < _REFRESH_S):
            return
        self._shown = now
        text = self.line(progress, note)
        if len(_plain(text)) >= shutil.get_terminal_size().columns:  # the words matter more than the bar
            text = self.line(progress, note, bar=False)
        self._write(text)

    def line(self, progress: dict[str, Any], note: str = "", bar: bool = True) -> str:
        """Return the text of the line, without control characters but colours."""
        done, budget = int(progress.get("candidates", 0)), int(progress.get("candidates_budget", 0))
        part = min(1.0, done / budget) if budget else 0.0
        full = round(part * _BAR)
        drawn = self._paint("32", "━" * full) + self._paint("90", "─" * (_BAR - full)) + " "
        text = f"{drawn if bar else ''}{done}/{budget} candidates, {progress.get('runs_done', 0)}/{progress.get('runs', 0)} operators"
        left = progress.get("seconds_left")
        if isinstance(left, (int, float)) and left >= 0:
            text += f", {span(left)} left"
        best = progress.get("best") or {}
        if best:
            card, cost = min(best.items(), key=lambda item: item[1])
            if cost > 0:
                text += f", best {self.names.get(card, card)} {1 / cost:.2f}x"
        if progress.get("calls"):
            text += f", {progress['calls']} calls, {progress['usd']:.4f} USD"
        return f"{text} {self._paint('90', note)}" if note else text

    def say(self, text: str) -> None:
        """Print a line of narration above the bar; nothing when silent."""
        if self._on:
            self.clear()
            print(text, file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._on and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and text else text

    def _write(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        plain = _plain(text)
        if len(plain) >= columns:
            text = plain = plain[: columns - 1]
        self._stream.write("\r" + text + " " * max(0, self._width - len(plain)))
        self._stream.flush()
        self._width = len(plain)


def _plain(text: str) -> str:
    out, skip = [], False
    for ch in text:
        if ch == "\x1b":
            skip = True
        elif skip:
            skip = ch != "m"
        else:
            out.append(ch)
    return "".join(out)


def span(seconds: float) -> str:
    """Return a duration for people: `42 s`, `3 min 20 s`, `1 h 05 min`."""
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600} h {s % 3600 // 60:02d} min"
