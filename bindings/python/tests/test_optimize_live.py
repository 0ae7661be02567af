"""A search that runs in another process: Ctrl-C once and twice, kill -9, a second search on the same study."""

import contextlib
import functools
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from kernelforge import _settings, _studies
from kernelforge.errors import KernelForgeError
from small_net import PACKAGE, command

pytestmark = pytest.mark.usefixtures("clean")

LONG = [
    "--processes",
    "0",
    "--candidates",
    "60",
    "--ops",
    "max_pool2d*",
    "--min-share",
    "0",
    "--study",
    "long",
]


def _start(net_file, *more):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "kernelforge", "optimize", f"{net_file}:make", *LONG, *more]
    # A test run in the background of a shell ignores SIGINT, and children inherit that.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=heed
    )


def _nodes():
    try:
        return sum(len(r["nodes"]) - 1 for r in _studies.load("long", None)["runs"])
    except KernelForgeError:
        return 0


def _wait_for(count, process):
    deadline = time.monotonic() + 300
    while _nodes() < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no candidate was judged in five minutes"
        time.sleep(0.05)  # the search has the processor


def _hold(process):
    """Stop it, at a moment at which it does not hold the lock of the store: it writes for milliseconds, and others wait for seconds."""
    for _ in range(200):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        store = sqlite3.connect(_settings.read().store, timeout=0.2, isolation_level=None)
        with contextlib.closing(store), contextlib.suppress(sqlite3.OperationalError):
            store.execute("BEGIN IMMEDIATE")
            store.execute("ROLLBACK")
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError("it writes to the store all the time")


def test_ctrl_c_saves_says_how_to_resume_and_is_130(net_file):
    process = _start(net_file)
    _wait_for(2, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted after" in err
    assert "hint: the same call resumes it" in err
    saved = _nodes()
    assert saved >= 2
    resumed = command("optimize", f"{net_file}:make", *LONG, "--candidates", str(saved + 1))
    assert resumed.returncode == 0, resumed.stderr
    assert _nodes() >= saved


def test_ctrl_c_twice_stops_at_once_and_keeps_what_was_judged(net_file):
    process = _start(net_file)
    _wait_for(2, process)
    saved = _nodes()
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)  # the first one has reached the loop
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert _nodes() >= saved
    assert _studies.find("long", None)["state"] == "stopped"


def test_a_killed_search_loses_at_most_the_candidate_in_flight(net_file):
    process = _start(net_file)
    _wait_for(2, process)
    process.kill()
    process.communicate(timeout=60)
    saved = _nodes()
    assert saved >= 2
    assert _studies.find("long", None)["state"] in ("stopped", "running")
    resumed = command("optimize", f"{net_file}:make", *LONG, "--candidates", str(saved + 1))
    assert resumed.returncode == 0, resumed.stderr
    assert _nodes() >= saved


def test_a_second_search_on_one_study_is_7_readers_and_other_studies_are_free(net_file):
    process = _start(net_file)
    try:
        _wait_for(1, process)
        _hold(process)  # a fast machine would end the search before the last of these has begun
        second = command("optimize", f"{net_file}:make", *LONG)
        assert second.returncode == 7, second.stderr
        assert second.stderr.count("error:") == 1
        assert "hint:" in second.stderr
        assert command("show", "long").returncode == 0
        other = command(
            "optimize",
            f"{net_file}:make",
            "--candidates",
            "1",
            "--ops",
            "max_pool2d*",
            "--min-share",
            "0",
            "--study",
            "other",
        )
        assert other.returncode == 0, other.stderr
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=120)
    assert process.returncode == 130
