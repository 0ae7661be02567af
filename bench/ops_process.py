"""The child processes of bench/ops.py, as their parent sees them: requests, answers, and an end for one that crashes or hangs.

It owns the process and everything that it starts. What is asked and answered is ops_child.py's.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

STAND_S, FRAMES = 0.5, 6  # for a child that does not answer to say where it is
END_S = 10.0  # for one that has closed its answers to end

Row = dict[str, Any]


class Ended(Exception):
    """A child that ended or was ended: what it was doing, and why."""

    def __init__(self, doing: str, why: str) -> None:
        super().__init__(why)
        self.doing, self.why = doing, why


def share(number: int, of: int) -> set[int]:
    """Return the processors of one lane; all of them where there are fewer than lanes."""
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[number::of]) if len(cores) >= of else set(cores)


class Child:
    """A process of ops_child.py, on one device."""

    def __init__(self, settings: dict[str, Any], device: str | None, lane: int, cores: set[int]) -> None:
        own = (f"/device-{device}" if device else "") + (f"/lane-{lane}" if lane else "")
        env = os.environ | {"KERNELFORGE_HOME": settings["home"] + own}
        env |= {"TORCHINDUCTOR_CACHE_DIR": f"{settings['home']}{own}/inductor", "PYTHONPATH": _paths()}
        env |= {"CUDA_VISIBLE_DEVICES": device} if device else {}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the child
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "bench/ops_child.py"), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=env,
            start_new_session=True,
        )
        os.sched_setaffinity(self._process.pid, cores)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, seconds: float, **request: Any) -> Row:
        """Return the row that the child answers.

        Raises:
            Ended: the child crashed, or has not answered in this time.
        """
        stdin = self._process.stdin
        assert stdin is not None
        doing = "start"
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except OSError as e:
            raise Ended(doing, self._tail()) from e
        return self.wait(seconds, "row", doing)  # type: ignore[no-any-return]

    def wait(self, seconds: float, key: str, doing: str) -> Any:
        """Return what the child says under this key."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(until - time.monotonic(), 0.01))
            except queue.Empty:
                at = self._stands()
                self.end()
                raise Ended(doing, f"no answer within {seconds:.0f} s{at}") from None
            if line is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END_S)  # its own end says more than ours
                self.end()
                raise Ended(doing, self._tail())
            said = json.loads(line)
            doing = said.get("doing", doing)
            if key in said:
                return said[key]

    def _stands(self) -> str:
        """Return where the child's main thread is, as ` (in a, b)` with the innermost first: the words of faulthandler, which ops_child.py has registered."""
        self._errors.seek(0, os.SEEK_END)
        before = self._errors.tell()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        time.sleep(STAND_S)
        self._errors.seek(before)
        main = self._errors.read().strip().rpartition("\n\n")[2]  # the oldest thread is told last
        found = re.findall(r'File ".*?([^/"]+)", line (\d+) in (\S+)', main)
        return (
            f" (in {', '.join(f'{name} {file}:{line}' for file, line, name in found[:FRAMES])})"
            if found
            else ""
        )

    def _tail(self) -> str:
        code = self._process.wait()
        ended = signal.Signals(-code).name if code < 0 else f"code {code}"
        self._errors.seek(0)
        words = [w.strip() for w in self._errors.read().splitlines() if w.strip()]
        return f"the process ended with {ended}: {words[-1][:200] if words else 'it said nothing'}"

    def end(self) -> None:
        """End the child and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _paths() -> str:
    parts = [str(ROOT / "bindings/python"), str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(p for p in parts if p)
