"""Whether a C++ compiler can do what candidates of the host target need, tried on a source of one line.

It refuses to choose one: `_settings.compiler` does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from . import _settings

_SECONDS = 60
_ROOM = 4 << 20  # with less free the disk is to blame, and not the compiler
_NAME_ANOTHER = "name another one with KERNELFORGE_CXX"


_NEEDED = ("PATH", "LD_LIBRARY_PATH")  # of the environment: a compiler has no use for keys
_good: set[str] = set()  # compilers that passed in this process


def trouble(compiler: str) -> tuple[str, str] | None:
    """Return `tried`; one that passed is not asked again in this process."""
    found = None if compiler in _good else tried(compiler)
    if found is None:
        _good.add(compiler)
    return found


def tried(compiler: str) -> tuple[str, str] | None:
    """Return what is wrong with a compiler, and the hint; None if it can do what is needed."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "probe.cc", Path(folder) / "probe.so"
        source.write_text('extern "C" int probe(int x) { return x + 1; }\n')
        options = ["-std=c++20", "-O3", "-march=native", "-fPIC", "-shared"]
        try:
            done = _ran([compiler, *options, str(source), "-o", str(library)], folder)
        except subprocess.TimeoutExpired:
            return f"`{compiler}` does not answer within {_SECONDS} s", _NAME_ANOTHER
        except (OSError, subprocess.SubprocessError) as e:
            return f"`{compiler}` cannot be run: {e}", _NAME_ANOTHER
        if done.returncode == 0 and library.exists() and os.path.getsize(library) > 0:
            return None
        free = _settings.free_bytes(Path(folder))
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    ended = said[0] if said else f"it ended with {done.returncode} and made no library"
    if free is not None and free < _ROOM:
        return f"`{compiler}` fails: {ended}", "set TMPDIR to a folder of yours with free space"
    return f"`{compiler}` fails: {ended}", f"it must know C++20 and -march=native; {_NAME_ANOTHER}"


def _ran(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler whose temporary files lie in a folder. Where this process is interrupted, all that the compiler has started ends."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
        env={k: os.environ[k] for k in _NEEDED if k in os.environ} | {"LC_ALL": "C", "TMPDIR": folder},
    )
    with process:
        try:
            said, wrong = process.communicate(timeout=_SECONDS)
        except BaseException:
            if process.poll() is None:  # its number is still its own
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, wrong)
