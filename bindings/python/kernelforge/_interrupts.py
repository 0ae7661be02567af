"""Ctrl-C and SIGTERM while this package works: what is running gives back its processes, temporary files and locks before either ends it.

It owns the two handlers. It refuses those of a program that handles a signal itself, and to decide what an interrupt means to the work: that is its caller's.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

log = logging.getLogger("kernelforge")


class Terminated(BaseException):
    """SIGTERM came."""


class Interrupts:
    """Counts Ctrl-C, and raises KeyboardInterrupt for it where the program is; for SIGTERM, Terminated.

    patient: the first Ctrl-C is only counted; whoever set this looks at `count` between two steps. The second is raised.
    """

    def __init__(self) -> None:
        self.count = 0
        self.patient = False
        self._raised: type[BaseException] | None = None

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._raised is not Terminated and (self.count > 1 or not self.patient):
            self._raised = KeyboardInterrupt
            raise KeyboardInterrupt

    def terminate(self, number: int, frame: FrameType | None) -> None:
        if self._raised is not Terminated:  # a second one would disturb what the first one lets end
            self._raised = Terminated
            raise Terminated

    def raise_again(self) -> None:
        """Raise what somebody swallowed: C code that calls back, or a library that tries an import and makes an error of its own out of it."""
        if self._raised is not None:
            raise self._raised

    def look(self) -> None:
        """Raise what somebody swallowed, or what was only counted and is nobody's to wait for."""
        self.raise_again()
        if self.count and not self.patient:
            raise KeyboardInterrupt


_now: Interrupts | None = None


@contextlib.contextmanager
def handled(what: str, hint: str) -> Iterator[Interrupts]:
    """Handle both signals inside the block; blocks nest, and threads other than the main one get none. After SIGTERM the block has ended as after any
    exception; then the signal ends the process, which is what its sender waits for.

    Args:
        what: the work, for the words that SIGTERM leaves behind.
        hint: how it goes on.
    """
    global _now
    if threading.current_thread() is not threading.main_thread():
        yield Interrupts()
        return
    if _now is not None:
        yield _now
        return
    ours = Interrupts()
    before: list[tuple[signal.Signals, Any]] = []
    try:
        _now = ours
        handlers: list[tuple[signal.Signals, Any, Any]] = [
            (signal.SIGINT, signal.default_int_handler, ours.interrupt),
            (signal.SIGTERM, signal.SIG_DFL, ours.terminate),
        ]
        for number, usual, handler in handlers:
            if signal.getsignal(number) == usual:  # a program that handles a signal itself keeps its handler
                before.append((number, usual))
                signal.signal(number, handler)
        yield ours
        if (
            ours._raised is Terminated
        ):  # swallowed, and the work is done: the signal ends the process all the same
            raise Terminated
    except Terminated:
        log.warning("%s: terminated; %s", what, hint)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        _now = None
        for number, usual in before:
            signal.signal(number, usual)


def look() -> None:
    """Raise what somebody swallowed in the block that is being handled, if one is."""
    if _now is not None and threading.current_thread() is threading.main_thread():
        _now.look()
