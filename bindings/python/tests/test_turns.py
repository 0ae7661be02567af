"""Turns on a device among processes: bindings/python/kernelforge/_turns.py. The same files are locked by go/judge/turns.go, whose tests are its own."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kernelforge import _turns
from kernelforge._place import HOST, Place

HOLDER = """
import sys, time
from kernelforge import _turns
_turns.path = lambda place: sys.argv[1]
with getattr(_turns, sys.argv[2])(None):
    print("in", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def device(tmp_path, monkeypatch):
    begin = str(tmp_path / "device")
    for end in ("door", "room"):
        assert _turns._there(tmp_path / f"device.{end}")
    monkeypatch.setattr(_turns, "path", lambda place: begin)
    return begin


def held(device, how):
    child = subprocess.Popen([sys.executable, "-c", HOLDER, device, how], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "in\n"
    return child


def came(how):
    """Begin to ask for a turn in a thread; return the event that it was had."""
    had = threading.Event()

    def ask():
        with how(HOST):
            had.set()

    threading.Thread(target=ask, daemon=True).start()
    return had


@pytest.mark.parametrize(
    ("theirs", "ours", "waits"),
    [
        ("alone", "alone", True),
        ("alone", "beside", True),
        ("beside", "alone", True),
        ("beside", "beside", False),
    ],
)
def test_who_waits_for_whom_and_a_killed_process_keeps_nothing(device, theirs, ours, waits):
    child = held(device, theirs)
    try:
        had = came(getattr(_turns, ours))
        assert had.wait(0.3 if waits else 30) is not waits
    finally:
        child.kill()
        child.wait()
    assert had.wait(30)


def test_one_who_is_stopped_keeps_others_for_a_limited_time(device, monkeypatch):
    monkeypatch.setattr(_turns, "_LIMIT_S", 0.2)
    child = held(device, "alone")
    try:
        began = time.monotonic()
        with _turns.alone(HOST):
            assert time.monotonic() - began >= 0.2
    finally:
        child.kill()
        child.wait()


def test_a_link_is_no_file_of_a_device(tmp_path):
    (tmp_path / "aim").write_text("")
    (tmp_path / "link.door").symlink_to(tmp_path / "aim")
    assert not _turns._there(tmp_path / "link.door")


def test_the_host_takes_no_turns_and_devices_have_files_of_their_own(tmp_path, monkeypatch):
    assert _turns.path(HOST) == ""
    monkeypatch.setattr(_turns, "_FOLDERS", (str(tmp_path / "missing"), str(tmp_path)))
    monkeypatch.setattr(Place, "uuid", lambda self: f"GPU-{self.ordinal}")
    first, second = _turns.path(Place(0)), _turns.path(Place(1))
    assert first == str(tmp_path / "kernelforge-GPU-0") and second != first
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"kernelforge-GPU-{i}.{end}" for i in (0, 1) for end in ("door", "room")
    ]


def test_turns_within_turns_of_a_thread(device):
    with _turns.alone(HOST), _turns.alone(HOST), _turns.beside(HOST):
        other = came(_turns.beside)
        assert not other.wait(0.3)
    assert other.wait(30)
    with _turns.beside(HOST), pytest.raises(RuntimeError, match="leave that first"), _turns.alone(HOST):
        pass


def test_a_forked_child_keeps_nothing_that_its_parent_has_given_back(device):
    with _turns.alone(HOST):
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
    try:
        assert came(_turns.alone).wait(30)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
