"""What a process shares: locks over a fork, one study at a time, and what ends on another thread than it began."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
import torch

import kernelforge
from handmade import record
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


def test_thread_off_that_ends_on_another_thread_leaves_that_thread_alone():
    """A generator that holds one may be closed by the collector, on any thread: the hooks of that thread went off for good."""
    holder = [_ext.load().thread_off()]
    thread = threading.Thread(target=holder[0].__enter__)
    thread.start()
    thread.join()
    with pytest.raises(_ext.load().Fault, match="open on another thread"):
        holder[0].__enter__()
    seen = []

    def end():
        holder.clear()
        seen.extend(r["overload"] for r in record(lambda: torch.relu(X)))

    thread = threading.Thread(target=end)  # it is given the id of the one that has ended
    thread.start()
    thread.join()
    assert seen == ["aten::relu"]


def test_discovery_survives_events_that_end_out_of_order_or_on_another_thread():
    """What had ended stayed around all later events of its thread, which wrote their time to memory that was freed: the process aborted."""
    script = """
        import threading, time, torch
        from kernelforge import _ext

        Event, names = torch._C._profiler._RecordFunctionFast, [f"other {k}" for k in range(16)]
        every = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        with torch.profiler.profile(experimental_config=every):  # without a profiler such events are none
            for _ in range(30):
                _ext.load().discovery_begin()
                moved, after, others = Event("moved"), Event("after"), [Event(name) for name in names]
                ended, over = threading.Event(), threading.Event()
                moved.__enter__()

                def elsewhere():
                    moved.__exit__(None, None, None)
                    for event in others:
                        event.__enter__()
                    ended.set(), over.wait()
                    for event in reversed(others):
                        event.__exit__(None, None, None)

                thread = threading.Thread(target=elsewhere)
                thread.start(), ended.wait()
                with after:
                    time.sleep(0.001)
                over.set(), thread.join()
                found = {d["name"]: d for d in _ext.load().discovery_end()}
                assert set(found) == {"after", *names}, found
                for around, inside in zip(names, names[1:]):
                    assert found[around]["self_ns"] == found[around]["total_ns"] - found[inside]["total_ns"]
            _ext.load().discovery_begin()
            outer, inner = Event("outer"), Event("inner")
            outer.__enter__(), inner.__enter__()
            outer.__exit__(None, None, None), inner.__exit__(None, None, None)
            assert [d["name"] for d in _ext.load().discovery_end()] == ["inner"]
        print("right")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("right\n")
