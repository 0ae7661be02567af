"""The right to use a device among the processes of kernelforge on it: one alone while it times, several while they only compute.

Two searches on one device would else find each other in their times. It owns where the two files of a device lie, and locks them as go/judge/turns.go
does: who wants to be alone takes the door and then waits for those in the room; whoever comes later waits at the door. The system gives both back when a
process ends. It refuses to wait for ever: after a minute the device is used as one that strangers use. Programs that know nothing of this are not kept away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ._place import Place

_FOLDERS = ("/run/lock", "/tmp")  # the same for every user of the machine
_PAUSE_S = 0.0005
_LIMIT_S = 60.0
_of_thread = threading.local()  # `how`: what it holds


def path(place: Place) -> str:
    """Return what the names of a device's two files begin with, and make the files; "" on the host, and where they cannot be made."""
    if not place.cuda:
        return ""
    for folder in _FOLDERS:
        begin = Path(folder) / f"kernelforge-{place.uuid()}"
        if all(_there(Path(f"{begin}.{end}")) for end in ("door", "room")):
            return str(begin)
    return ""


def _there(file: Path) -> bool:
    """Return whether a file is there to be locked; it may be another user's, who needs no more than to read it."""
    with contextlib.suppress(FileExistsError, OSError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_CLOEXEC, 0o644))
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Use the device with no other search beside. Within it, in the same thread, this and `beside` are nothing.

    Raises:
        RuntimeError: it was asked for within `beside`, where two processes could wait for each other.

    Example:
        >>> from kernelforge._place import HOST
        >>> with alone(HOST):  # on the host it is nothing
        ...     pass
    """
    with _entered(place, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def beside(place: Place) -> Iterator[None]:
    """Use the device while no other search times on it."""
    with _entered(place, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def _entered(place: Place, how: int) -> Iterator[None]:
    within = getattr(_of_thread, "how", None)
    if within is not None:
        if how == fcntl.LOCK_EX and within != how:
            raise RuntimeError("be alone on a device within `beside`: leave that first")
        yield
        return
    begin = path(place)
    with contextlib.ExitStack() as room:
        if begin:
            with contextlib.suppress(OSError, TimeoutError), contextlib.ExitStack() as door:
                until = time.monotonic() + _LIMIT_S
                _lock(door, f"{begin}.door", fcntl.LOCK_EX, until)
                _lock(room, f"{begin}.room", how, until)
        _of_thread.how = how
        try:
            yield
        finally:
            _of_thread.how = None


def _lock(held: contextlib.ExitStack, file: str, how: int, until: float) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            # A child that was forked meanwhile has the same open file: closing ours would leave the lock to it.
            held.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError from None
            time.sleep(_PAUSE_S)
