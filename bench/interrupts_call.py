"""One call of `kernelforge optimize` as a user makes it, watched from outside: for bench/interrupts.py.

It owns the process, its session and when each of its phases began, told by what it has loaded and stored. It refuses to hurt it, or to judge it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import victim
from faults_row import PATIENCE_S, stored
from victim import Place

ROOT = Path(__file__).resolve().parent.parent
CANDIDATES = 4
POOL = """
import torch

def make(device="cpu"):
    torch.manual_seed(0)
    return torch.nn.MaxPool2d(3, 2, ceil_mode=True), (torch.randn(2, 16, 96, 96, device=device),)
"""
# The library whose loading begins a phase, and the event that does.
LOADS = {"import": "libtorch_cpu.so", "profile": "libkernelforge.so"}
BEGINS = {
    "prepare": "session",
    "search": "verdict",
    "confirm": "verdict",
    "fresh": "samples",
    "finish": "decision",
    "report": "result",
}
PHASES = ("start", *LOADS, *BEGINS)


@dataclass
class Call:
    """One call of `kernelforge optimize` in a session of its own, and when each of its phases began."""

    place: Place
    pid: int = 0
    status: int | None = None
    began: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.out, self.err = self.place.folder / "out", self.place.folder / "err"
        self._seen = last_event(self.place)
        self._had = len(stored(self.place))
        search = ["--study", victim.STUDY, "--ops", "max_pool2d*", "--min-share", "0"]
        more = ["--candidates", str(CANDIDATES), "--processes", "1", "--threads", "1", "--json"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("KERNELFORGE_")}
        self.began = time.monotonic()
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kernelforge", "optimize", f"{self.place.net}:make", *search, *more],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env={**clean, **self.place.environment(), "PYTHONPATH": str(ROOT / "bindings/python")},
                start_new_session=True,
                restore_signals=True,
                preexec_fn=_heed,  # this program is one thread
            )
        self.pid = self.process.pid
        self.phases["start"] = self.began

    def look(self) -> bool:
        """Take note of the phases that have begun; return whether it runs."""
        now = time.monotonic()
        for phase, library in LOADS.items():
            if phase not in self.phases and self._has(library):
                self.phases[phase] = now
        kinds = kinds_after(self.place, self._seen) if "profile" in self.phases else []
        for phase, kind in BEGINS.items():
            least = CANDIDATES - self._had if phase == "confirm" else 1
            if phase not in self.phases and "session" in kinds and kinds.count(kind) >= least:
                self.phases[phase] = now
        if self.status is None and self.process.poll() is not None:
            self.status = self.process.returncode
        return self.status is None

    def _has(self, library: str) -> bool:
        try:
            return library in Path(f"/proc/{self.pid}/maps").read_text()
        except OSError:
            return False

    def reach(self, phase: str) -> bool:
        """Wait until a phase or a later one has begun; return False if it ended before."""
        those = PHASES[PHASES.index(phase) :]
        end = self.began + PATIENCE_S
        while self.look() and time.monotonic() < end:
            if any(p in self.phases for p in those):
                return True
            time.sleep(0.02)  # each look takes from the call's own time on a small machine
        return False

    def wait(self, seconds: float) -> float | None:
        """Return how long it took to end, None if it did not; then it is killed."""
        began = time.monotonic()
        while self.look() and time.monotonic() - began < seconds:
            time.sleep(0.02)
        if self.status is not None:
            return time.monotonic() - began
        self.kill()
        return None

    def kill(self) -> None:
        for pid in self.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.status = self.process.wait()

    def family(self) -> dict[int, str]:
        """Return all processes of its session: {pid: name}."""
        return {pid: name for pid, session, name in sessions() if session == self.pid}

    def said(self) -> str:
        return self.err.read_text(errors="replace")

    def printed(self) -> dict[str, Any] | None:
        """Return the object on its standard output, None if that is not one."""
        try:
            found = json.loads(self.out.read_text())
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def _heed() -> None:
    """A program that a shell started in the background ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def sessions() -> list[tuple[int, int, str]]:
    """Return pid, session and name of every process that is not a zombie."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                text = Path("/proc", entry, "stat").read_text()
                rest = text[text.rindex(")") + 2 :].split()
                if rest[0] != "Z":
                    name = text[text.index("(") + 1 : text.rindex(")")]
                    found.append((int(entry), int(rest[3]), name))
    return found


def kinds_after(place: Place, seq: int) -> list[str]:
    return [kind for _, kind in events_after(place, seq)]


def last_event(place: Place) -> int:
    return max((seq for seq, _ in events_after(place, 0)), default=0)


def events_after(place: Place, seq: int) -> list[tuple[int, str]]:
    if not place.store.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(f"file:{place.store}?mode=ro", timeout=10, uri=True)) as db:
            rows = db.execute("SELECT seq, kind FROM events WHERE seq > ? ORDER BY seq", (seq,)).fetchall()
    except sqlite3.OperationalError:  # it is being created
        return []
    return [(int(s), str(k)) for s, k in rows]
