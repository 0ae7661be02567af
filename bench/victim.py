"""A search in a process of its own that can be hurt and watched: for bench/faults.py and bench/kills.py.

The program that uses this imports torch and the extension once and forks for each search, so that a trial costs its search and not an import. The
parent must load neither the Go core nor a driver: both refuse a fork. A victim runs the command line itself, so its exit code and its words are those
that a user sees. It tells on a pipe what happens inside: tasks of the referee, events of the log, and at its end whether it is unharmed; its times are
time.monotonic(), which all processes share.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bindings/python")]

STUDY = "victim"
NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def make(device="cpu"):
    torch.manual_seed(0)
    return Net().eval(), (torch.randn({elements}, device=device),)
"""
ELEMENTS = {"host": 1 << 18, "cuda": 1 << 24}
OPTIMIZE = ["--study", STUDY, "--ops", "relu", "--min-share", "0"]

Tell = Callable[..., None]


def preload() -> None:
    """Import what a fork shares. No CUDA call: a driver does not survive a fork."""
    import torch

    from kernelforge import _ext

    torch.set_num_threads(1)
    _ext.load()


def machine(target: str) -> dict[str, Any]:
    """Return what a result says of the machine. Asked in a process of its own: this one must not touch a driver before it forks."""
    place = {"host": "HOST", "cuda": "Place(0)"}[target]
    code = f"import json; from kernelforge._pins import environment; from kernelforge._place import HOST, Place; print(json.dumps(environment({place})))"
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")}
    said = subprocess.run([sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


class Place:
    """Folders of one trial: home, temporary files, and the net. `cache`: compiled candidates that trials share; None: a cache of its own."""

    def __init__(self, folder: Path, target: str, cache: Path | None = None) -> None:
        self.folder, self.target, self.variables = folder, target, dict[str, str]()
        self.home, self.scratch, self.net = folder / "home", folder / "tmp", folder / "net.py"
        for made in (self.home, self.scratch):
            made.mkdir(parents=True, exist_ok=True)
        if cache is not None and not (self.home / "cache").exists():
            cache.mkdir(parents=True, exist_ok=True)
            (self.home / "cache").symlink_to(cache)
        if not self.net.exists():
            self.net.write_text(NET.format(elements=ELEMENTS[target]))

    @property
    def store(self) -> Path:
        return self.home / "kernelforge.db"

    def environment(self) -> dict[str, str]:
        return {"KERNELFORGE_HOME": str(self.home), "TMPDIR": str(self.scratch), **self.variables}

    def optimize(self, *more: str) -> list[str]:
        device = ["--device", "cuda"] if self.target == "cuda" else []
        return ["optimize", f"{self.net}:make", *OPTIMIZE, *device, *more]

    def left(self) -> list[str]:
        """Return what lies in the folder of temporary files, but for what the system keeps there."""
        return sorted(p.name for p in self.scratch.iterdir())


def cli(argv: list[str]) -> int:
    """Run a command of kernelforge in this process."""
    from kernelforge import cli as commands

    return commands.main(argv)


def watch(tell: Tell, start: dict[str, Any]) -> None:
    """Have this process tell what its search does. start: what to add to the request that starts a study; `settings` are added to its own."""
    from kernelforge import _core, _search

    carry_out, call = _search._carry_out, _core.call

    def telling_carry_out(study: str, task: dict[str, Any], execute: Any, outcome: Any) -> None:
        tell(
            kind="task",
            task=task["kind"],
            compares=bool(task.get("compare")),
            case=(task.get("poison") or {}).get("case"),
        )
        carry_out(study, task, execute, outcome)
        tell(kind="done", task=task["kind"])

    def telling_call(operation: str, **request: Any) -> dict[str, Any]:
        if operation == "study.start":
            settings = {**request["settings"], **start.get("settings", {})}
            request = {**request, **start, "settings": settings}
        if operation == "pack.write":
            tell(kind="writes", path=request["path"])
        answer = call(operation, **request)
        if operation == "study.poll":
            for event in answer["events"]:
                if event["kind"] in ("verdict", "run", "state", "plan", "selection"):
                    tell(kind=event["kind"], data=event["data"])
        return answer

    _search._carry_out, _core.call = telling_carry_out, telling_call


class Victim:
    """A forked process that does `work(tell)` and ends with the code that it returns."""

    def __init__(
        self, work: Callable[[Tell], int], place: Place, start: dict[str, Any] | None = None
    ) -> None:
        self.place = place
        self.log = place.folder / "said"
        read, write = os.pipe()
        os.set_blocking(read, False)
        sys.stdout.flush(), sys.stderr.flush()
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._child(work, start or {}, write)
        os.close(write)
        self._pipe, self._rest, self.told = read, b"", list[dict[str, Any]]()
        self.status: int | None = None
        self.ended = 0.0

    def _child(self, work: Callable[[Tell], int], start: dict[str, Any], write: int) -> None:
        code = 1
        try:
            log = os.open(self.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            os.dup2(log, 1), os.dup2(log, 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ.update(self.place.environment())

            def tell(**fields: Any) -> None:
                os.write(write, json.dumps({"at": time.monotonic(), **fields}).encode() + b"\n")

            watch(tell, start)
            tell(kind="begun")
            code = work(tell)
            sys.stdout.flush(), sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    # ---- from outside -------------------------------------------------------------------------------------------

    def listen(self, seconds: float) -> bool:
        """Take in what the victim tells, waiting at most this long; return whether it told anything."""
        if not select.select([self._pipe], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.told += [json.loads(line) for line in lines]
        if not data:
            time.sleep(0.002)
        return bool(lines)

    def alive(self) -> bool:
        """Return whether it runs; afterwards `status` is its exit code, or the negative number of the signal that ended it."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status, self.ended = os.waitstatus_to_exitcode(status), time.monotonic()
        return self.status is None

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Listen until something holds, the victim has ended, or the time is up; return whether it holds."""
        end = time.monotonic() + seconds
        while not holds():
            if not self.alive():
                while self.listen(0):
                    pass
                return holds()
            if time.monotonic() > end:
                return False
            self.listen(min(0.05, max(0.0, end - time.monotonic())))
        return True

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended within this time."""
        self.until(lambda: not self.alive(), seconds)
        while self.listen(0):
            pass
        return not self.alive()

    def all(self, kind: str, after: float = 0.0) -> list[dict[str, Any]]:
        return [t for t in self.told if t["kind"] == kind and t["at"] > after]

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def end(self) -> None:
        """Kill it, if it lives, and forget it."""
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = -9
        os.close(self._pipe)


# ---- processes -----------------------------------------------------------------------------------------------------


def processes() -> Iterator[tuple[int, int, str, int]]:
    """Give pid, parent, name and start time of every process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            if rest[0] != "Z":
                yield int(entry), int(rest[1]), name, int(rest[19])


def descendants(pid: int) -> dict[tuple[int, int], str]:
    """Return the living descendants of a process: {(pid, start time): name}."""
    children: dict[int, list[tuple[int, str, int]]] = {}
    for number, parent, name, start in processes():
        children.setdefault(parent, []).append((number, name, start))
    found, queue = dict[tuple[int, int], str](), [pid]
    while queue:
        for number, name, start in children.get(queue.pop(), []):
            found[number, start] = name
            queue.append(number)
    return found


def living(which: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """Return those of earlier descendants that live still."""
    now = {(pid, start) for pid, _, _, start in processes()}
    return {key: name for key, name in which.items() if key in now}


def strays(place: Place) -> set[tuple[int, int]]:
    """Return the processes that work in a trial's folder of temporary files and have no parent any more: {(pid, start time)}."""
    found = set()
    for pid, parent, name, start in processes():
        if parent == 1 and name in _OURS:
            try:
                inside = os.readlink(f"/proc/{pid}/cwd").startswith(str(place.scratch))
            except PermissionError:
                inside = True  # it hides itself from all but root: one of ours
            except OSError:
                continue  # it has ended
            if inside:
                found.add((pid, start))
    return found


_OURS = {"kernelforge-wor", "kf-compile-cuda", "cc1plus", "g++"}


def shared_memory() -> set[str]:
    """Return the names in /dev/shm that could be ours."""
    try:
        return {n for n in os.listdir("/dev/shm") if "kernelforge" in n or n.startswith("kf")}
    except OSError:
        return set()


def clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
