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


def test_waits_in_vain_get_shorter_until_a_turn_is_had(device, monkeypatch):
    monkeypatch.setattr(_turns, "_LIMIT_S", 0.4)
    child = held(device, "alone")
    try:
        os.kill(child.pid, signal.SIGSTOP)
        began = time.monotonic()
        for _ in range(20):
            with _turns.beside(HOST):
                pass
        assert 0.4 <= time.monotonic() - began < 4  # 8 s, were each of them as long
    finally:
        child.kill()
        child.wait()
    with _turns.beside(HOST):
        pass
    child = held(device, "alone")
    try:
        began = time.monotonic()
        with _turns.beside(HOST):
            assert time.monotonic() - began >= 0.4
    finally:
        child.kill()
        child.wait()


def test_a_link_and_a_pipe_are_no_files_of_a_device(tmp_path):
    (tmp_path / "aim").write_text("")
    (tmp_path / "link.door").symlink_to(tmp_path / "aim")
    assert not _turns._there(tmp_path / "link.door")
    os.mkfifo(tmp_path / "pipe.door")
    came = threading.Event()

    def look():
        if not _turns._there(tmp_path / "pipe.door"):
            came.set()

    threading.Thread(target=look, daemon=True).start()
    assert came.wait(10)  # another user's pipe is not waited at


def test_users_of_any_umask_find_the_same_files(tmp_path, monkeypatch):
    some, everybodys = tmp_path / "some", tmp_path / "everybodys"
    some.mkdir(0o755)
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    monkeypatch.setattr(_turns, "_FOLDERS", (str(some), str(everybodys)))
    monkeypatch.setattr(Place, "uuid", lambda self: f"GPU-{self.ordinal}")
    before = os.umask(0o077)
    try:
        begin = _turns.path(Place(0))
    finally:
        os.umask(before)
    assert begin == str(everybodys / "kernelforge-GPU-0")  # root could write to the first, others could not
    assert {p.stat().st_mode & 0o777 for p in everybodys.iterdir()} == {0o644}


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
