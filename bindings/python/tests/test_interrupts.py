"""Ctrl-C and SIGTERM: what runs is ended and cleaned up first, a program's own handlers stay, and no process outlives its parent. (Whole calls:
bench/interrupts.py.)"""

import os
import signal
import subprocess
import sys
import time

import pytest

from kernelforge import _core, _search
from kernelforge._interrupts import Interrupts, handled
from kernelforge.errors import LockedFault
from lives import lives
from small_net import PACKAGE


def _ends(code: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code in a process that heeds SIGINT, whoever started this one."""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    before = "import os, signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", before + code]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)


def test_sigterm_ends_the_process_after_what_is_inside_has_ended():
    done = _ends(
        "from kernelforge._interrupts import handled\n"
        "with handled('work', 'call again'):\n"
        "  with handled('a step', 'never said'):\n"
        "    try:\n"
        "      os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)\n"
        "    finally:\n"
        "      os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGINT); time.sleep(0.01); print('cleaned up', flush=True)\n"
    )
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert done.stdout == "cleaned up\n"
    assert done.stderr == "work: terminated; call again\n"


def test_a_programs_own_handlers_stay():
    def own(number, frame):
        seen.append(number)

    seen, before = [], {n: signal.signal(n, own) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        with handled("work", "") as interrupts:
            for number in before:
                os.kill(os.getpid(), number)
            time.sleep(0)
            assert interrupts.count == 0
        assert sorted(seen) == sorted(before) and {signal.getsignal(n) for n in before} == {own}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_first_ctrl_c_of_a_patient_block_is_counted_and_the_second_raised():
    interrupts = Interrupts()
    interrupts.patient = True
    interrupts.interrupt(signal.SIGINT, None)
    interrupts.look()
    assert interrupts.count == 1
    interrupts.patient = False
    with pytest.raises(KeyboardInterrupt):
        interrupts.look()
    interrupts.patient = True
    with pytest.raises(KeyboardInterrupt):
        interrupts.interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):  # whoever swallowed it
        interrupts.raise_again()


FAILS, IGNORES, PASSES = (
    "except BaseException: raise ValueError('a library failed')",
    "except BaseException: pass",
    "finally: pass",
)


def _hit(number, then):
    """A command that gets a signal inside an `exec` of text, as an import has them."""
    text = f"try: os.kill(os.getpid(), {int(number)}); time.sleep(30)\n{then}"
    return _ends(
        "from kernelforge import cli\nimport kernelforge.cli.cache as command\n"
        f"command.run = lambda args: exec({text!r}) or 0\n"
        "raise SystemExit(cli.main(['cache']))"
    )


@pytest.mark.parametrize("then", [FAILS, PASSES])
def test_ctrl_c_in_a_command_is_130_wherever_it_comes(then):
    """Python would end by SIGINT if the interrupt came into an `exec` of text; a library may make an error of its own out of it."""
    done = _hit(signal.SIGINT, then)
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("error: cache: interrupted\nhint: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize("then", [FAILS, IGNORES, PASSES])
def test_sigterm_ends_a_command_whoever_swallows_it(then):
    """A search once went on, or ended with an internal error, after SIGTERM had come into torch's import of NumPy."""
    done = _hit(signal.SIGTERM, then)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert (
        done.stderr
        == "kernelforge: cache: terminated; nothing is left half done: run the same command again\n"
    )


def test_a_process_that_was_started_ends_with_its_parent_and_is_none_of_the_terminals(tmp_path):
    ready = tmp_path / "ready"
    child = (
        "from kernelforge._child import end_with_parent; import os, time; end_with_parent();"
        f"open({str(ready)!r} + '.part', 'w').write(f'{{os.getpid()}} {{os.getpgrp()}}'); os.rename({str(ready)!r} + '.part', {str(ready)!r}); time.sleep(60)"
    )
    done = _ends(
        f"from kernelforge._child import Child, environment\nChild(['-c', {child!r}], environment())\n"
        f"while not os.path.exists({str(ready)!r}): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, group = ready.read_text().split()
    assert pid == group  # Ctrl-C on a terminal goes to the parent's group
    deadline = time.monotonic() + 10
    while lives(pid):
        assert time.monotonic() < deadline, "it outlives its parent"


@pytest.fixture
def calls(monkeypatch):
    """What the core is asked; it says that a study is done."""
    made = []

    def call(operation, **request):
        made.append(operation)
        return {"state": "done"}

    monkeypatch.setattr(_core, "call", call)
    return made


def test_a_session_is_stopped_and_closed_whatever_ends_it(calls):
    with pytest.raises(KeyboardInterrupt), _search.opened("s", "study.start", study="s"):
        raise KeyboardInterrupt
    assert calls == ["study.start", "study.cancel", "study.poll", "study.close"]


def test_a_session_that_was_refused_is_not_closed_since_it_is_anothers(monkeypatch):
    def call(operation, **request):
        assert operation == "study.start"
        raise LockedFault("process 1 runs it")

    monkeypatch.setattr(_core, "call", call)
    with pytest.raises(LockedFault), _search.opened("s", "study.start", study="s"):
        raise AssertionError("it was opened")


def test_ctrl_c_that_comes_with_the_last_answer_is_not_lost(calls):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), _search.opened("s", "study.start", study="s"):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)
        assert calls == ["study.start", "study.close"]
    finally:
        signal.signal(signal.SIGINT, before)
