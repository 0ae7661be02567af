"""Programs that a bench runs, and their end with all that they have started. Each leads a process group of its own (`start_new_session`)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

END_S = 5.0  # for a program that is asked to end


def end(process: subprocess.Popen[Any], seconds: float) -> int:
    """End a process and what it has started; return its code. It is asked first: then its shared memory and temporary files go with it.

    seconds: for it to end when it is asked.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):  # the second one is for its children, too
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    return process.wait()


def output(
    words: Sequence[str],
    limit_s: float,
    *,
    end_s: float = END_S,
    cwd: Path | None = None,
    errors: bool = False,
) -> tuple[int, str, str]:
    """Run a program; return its exit code, what it printed, and its errors where they are asked for. However it ends, nothing that it started goes on.

    Raises:
        OSError, subprocess.TimeoutExpired: as subprocess.run.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=cwd, stdout=pipe, stderr=pipe if errors else None, text=True, start_new_session=True
    ) as program:
        try:
            printed, said = program.communicate(timeout=limit_s)
        finally:
            code = end(program, end_s)
        return code, printed, said or ""
