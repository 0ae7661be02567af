"""Parts of a bench side by side on one device, a process each: what one prepares or compiles is hidden behind what another times, and nobody times beside
another (kernelforge/_turns.py).

It owns the processes, their processors, their memory and their end, and the lock under which they write one file. What a part is, and how its rows come
into that file, is the bench's.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ops_process import share
from programs import end

GRACE_S = 10.0  # a part that is not done so long after its seconds is ended
END_S = 5.0  # for one that is asked to end
MEMORY_PART = 0.9  # of the device, for what torch takes in all parts together; workers take theirs beside it


def side_by_side(
    command: Callable[[str, float], list[str]], parts: Sequence[str], lanes: int, seconds: float
) -> list[str]:
    """Run a process for each part, at most `lanes` at a time; return the parts whose process did not end with code 0, or was never begun.

    Args:
        command: what runs after this Python's name, for a part and the seconds that it gets: an equal share of what is left.
        seconds: for all of them; at most GRACE_S + END_S later nothing runs any more.
    """
    until, waiting = time.monotonic() + seconds, queue.Queue[str]()
    for part in parts:
        waiting.put(part)
    bad, running, over = list[str](), dict[str, subprocess.Popen[bytes]](), threading.Event()

    def lane(number: int) -> None:
        while not over.is_set():
            rounds = math.ceil(waiting.qsize() / lanes)
            try:
                part = waiting.get_nowait()
            except queue.Empty:
                return
            left = until - time.monotonic()
            if left <= 0:
                bad.append(part)
                continue
            words = [sys.executable, *command(part, left / max(rounds, 1))]
            running[part] = subprocess.Popen(words, start_new_session=True)
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(running[part].pid, share(number, lanes))
            try:
                code = running[part].wait(max(until + GRACE_S - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                print(f"{part}: ended, {GRACE_S:.0f} s after its time", file=sys.stderr, flush=True)
                code = end(running[part], END_S)
            if code:
                bad.append(part)

    threads = [threading.Thread(target=lane, args=(n,), daemon=True) for n in range(min(lanes, len(parts)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:  # after Ctrl-C too
        over.set()
        for process in list(running.values()):
            if process.poll() is None:
                end(process, END_S)
    return [p for p in parts if p in bad]


def be_one_of(lanes: int) -> None:
    """Be a part's process: end with the parent, and leave the others their memory of the device."""
    import torch

    from kernelforge._child import end_with_parent

    end_with_parent()
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(MEMORY_PART / lanes)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep other parts from a file, and from those beside it, meanwhile. The lock is the folder's: nothing is left behind."""
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
