"""The right to use a device among the processes of kernelforge on it: one alone while it times, several while they only compute.

Two searches on one device would else find each other in their times. It owns where the two files of a device lie, and locks them as go/judge/turns.go
does: who wants to be alone takes the door and then waits for those in the room; whoever comes later waits at the door. The system gives both back when a
process ends. It refuses to wait for ever: after a minute the device is used as one that strangers use, and each wait in vain halves the next, until a
turn is had. Programs that know nothing of this are not kept away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ._place import Place

_FOLDERS = ("/run/lock", "/tmp")  # the same for every user of the machine
_PAUSE_S = 0.0005
_LIMIT_S = 60.0
_LEAST_S = 0.01
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # another user's pipe is not waited at
_in_vain: dict[str, int] = {}  # by device: waits in a row
_of_thread = threading.local()  # `how`: what it holds


class _InVain(Exception):
    """A lock was not had in time."""


def path(place: Place) -> str:
    """Return what the names of a device's two files begin with, and make the files; "" on the host, and where they cannot be made."""
    if not place.cuda:
        return ""
    # Not where only some may write: root, who may everywhere, would find itself alone there.
    for folder in sorted(_FOLDERS, key=lambda f: not _everybodys(f)):
        begin = Path(folder) / f"kernelforge-{place.uuid()}"
        if all(_there(Path(f"{begin}.{end}")) for end in ("door", "room")):
            return str(begin)
    return ""


def _everybodys(folder: str) -> bool:
    """Return whether every user may make files in a folder."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _there(file: Path) -> bool:
    """Return whether a file is there to be locked; it may be another user's, who needs no more than to read it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | _OPEN, 0o644)
        try:
            os.fchmod(descriptor, 0o644)  # whatever this user's umask
        finally:
            os.close(descriptor)
    try:
        descriptor = os.open(file, _OPEN)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


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
            before = _in_vain.get(begin, 0)
            try:
                with contextlib.suppress(OSError), contextlib.ExitStack() as door:
                    until = time.monotonic() + max(_LIMIT_S / 2**before, _LEAST_S)
                    _lock(door, f"{begin}.door", fcntl.LOCK_EX, until)
                    _lock(room, f"{begin}.room", how, until)
                    _in_vain.pop(begin, None)
            except _InVain:
                _in_vain[begin] = before + 1
        _of_thread.how = how
        try:
            yield
        finally:
            _of_thread.how = None


def _lock(held: contextlib.ExitStack, file: str, how: int, until: float) -> None:
    descriptor = os.open(file, _OPEN)
    held.callback(os.close, descriptor)
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            # A child that was forked meanwhile has the same open file: closing ours would leave the lock to it.
            held.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise _InVain from None
            time.sleep(_PAUSE_S)
