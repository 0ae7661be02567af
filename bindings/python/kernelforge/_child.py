"""Fresh processes of this Python: started clean, talked to in lines of JSON, killed when they are silent for too long.

It owns their environment and their end. It refuses to know what they do.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any


def environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a fresh process: this one's without `KERNELFORGE_` variables, and this package on its path.

    threads: how many torch may use there; None leaves it to torch.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KERNELFORGE_")}
    ours = str(Path(__file__).parents[1])
    clean["PYTHONPATH"] = os.pathsep.join([ours, *filter(None, [clean.get("PYTHONPATH")])])
    if threads is not None:
        clean["OMP_NUM_THREADS"] = str(threads)
    return clean


def end_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends, however that ends. For what a `Child` runs, as its first step."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended in between
        os.kill(os.getpid(), signal.SIGKILL)


_PR_SET_PDEATHSIG = 1


class Child:
    """One process. Use it as a context manager: leaving it ends the process, whatever it does.

    Args:
        command: what runs after this Python's name.
        variables: its environment.
    """

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self._talk = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._late = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._talk,
            text=True,
            process_group=0,  # Ctrl-C on a terminal is this process's to answer
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._talk):
            with contextlib.suppress(OSError):  # a pipe whose reader is gone
                if stream is not None:
                    stream.close()

    def tell(self, line: dict[str, Any]) -> None:
        """Send a line. One that has ended does not hear it, which `line` tells."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()

    def line(self, seconds: float) -> dict[str, Any] | None:
        """Return its next line, or None when it has ended. One that says nothing for so many seconds is killed."""
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._kill)
        timer.daemon = True
        timer.start()
        try:
            for text in self._process.stdout:
                if text.startswith("{"):
                    found: dict[str, Any] = json.loads(text)
                    return found
            self._process.wait()  # one that hangs after its last line is late, too
            return None
        finally:
            timer.cancel()

    def code(self) -> int | None:
        """Return how it ended, after `line` was None: its exit code, or None if it was killed for its silence."""
        return None if self._late.is_set() else self._process.wait()

    def ended(self) -> bool:
        """Return whether it runs no more."""
        return self._process.poll() is not None

    def talk(self) -> str:
        """Return what it wrote to standard error."""
        self._talk.seek(0)
        return self._talk.read()

    def _kill(self) -> None:
        self._late.set()
        self._process.kill()
