"""What a process shares: locks over a fork, and one study at a time."""

import os
import threading

import torch

import kernelforge
from kernelforge import _ext, _pack
from serving import serving

X = torch.randn(3, 5)


def _child_ends(work) -> int:
    """Fork; the child does `work` and ends. Return its exit code, -1 if it hung."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    watch = threading.Timer(20, os.kill, (pid, 9))
    watch.start()
    _, status = os.waitpid(pid, 0)
    watch.cancel()
    return os.waitstatus_to_exitcode(status)


def test_a_child_forked_while_another_thread_holds_the_locks_can_use_them():
    _ext.load()
    stop, began = threading.Event(), threading.Event()

    def busy():
        while not stop.is_set():
            with _pack._lock, _ext._lock:
                began.set()
            with serving(lambda: torch.relu(X)):
                pass
            with kernelforge.disabled():
                pass

    thread = threading.Thread(target=busy)
    thread.start()
    began.wait()

    def work():
        with kernelforge.disabled():
            torch.relu(X)
        kernelforge.restore()
        _ext.load().publish([])

    try:
        codes = [_child_ends(work) for _ in range(20)]
    finally:
        stop.set()
        thread.join()
    assert codes == [0] * 20


def test_a_child_forked_while_another_thread_is_recorded_can_record():
    module, stop = _ext.load(), threading.Event()

    def busy():
        while not stop.is_set():
            module.run_calls("aten::relu", [[X]], 2000)

    thread = threading.Thread(target=busy)
    module.capture_begin()
    module.trace_begin()
    module.discovery_begin()
    thread.start()

    def work():
        for begin, end in (
            (module.capture_begin, module.capture_end),
            (module.trace_begin, module.trace_end),
            (module.discovery_begin, module.discovery_end),
        ):
            begin()
            torch.relu(X)
            assert "aten::relu" in str(end())

    try:
        codes = [_child_ends(work) for _ in range(20)]
    finally:
        stop.set()
        thread.join()
        module.capture_end(), module.trace_end(), module.discovery_end()
    assert codes == [0] * 20


def test_two_threads_profile_one_after_the_other():
    shapes = [(2, 8, 16, 16), (2, 9, 16, 16)]
    pools = [torch.nn.Sequential(torch.nn.MaxPool2d(3)) for _ in shapes]
    found = {}
    start = threading.Barrier(2)

    def one(i):
        start.wait()
        with torch.no_grad():
            found[i] = kernelforge.profile(pools[i], torch.randn(shapes[i]), forwards=3)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, shape in enumerate(shapes):
        seen = [
            a["sizes"]
            for c in found[i].cards
            for v in c["variants"]
            for a in v["call"]["args"]
            if a["kind"] == "tensor"
        ]
        assert seen == [list(shape)], f"thread {i} sees {seen}"
