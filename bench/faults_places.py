"""Places without room, a device without memory or driver. A full disk is a small tmpfs where this process may mount one; else a limit on file sizes."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import victim
from faults_row import (
    PATIENCE_S,
    NotInjected,
    Row,
    Trials,
    ending,
    next_run,
    one_error,
    optimize,
    resumes,
    stored,
    troubles,
    verdicts,
    words,
)
from victim import Place, Tell, Victim

POOL = """
import torch

def make(device="cpu"):
    torch.manual_seed(0)
    return torch.nn.MaxPool2d(3, 2, ceil_mode=True), (torch.randn(2, 16, 96, 96, device=device),)
"""


def faults(target: str) -> dict[str, Callable[[Trials, str], Row]]:
    found: dict[str, Callable[[Trials, str], Row]] = {
        "store_full": lambda trials, name: full(trials, name, lambda place: place.home),
        "temporary_full": lambda trials, name: full(trials, name, lambda place: place.scratch),
        "store_limited": store_limited,
        "pack_full": pack_full,
    }
    if target == "cuda":
        found |= {
            "driver_missing": driver_missing,
            "memory_of_the_user": memory_of_the_user,
            "memory_of_the_worker": memory_of_the_worker,
        }
    return found


@contextlib.contextmanager
def small(folder: Path, kilobytes: int) -> Iterator[None]:
    """Give a folder a file system of its own of this size.

    Raises:
        NotInjected: this process may not mount one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=700", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode != 0:
        raise NotInjected("this process may not mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room of a file system; return the file to remove."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


def ended_with_one_error(
    v: Victim, struck: float, shared: set[str], code: int
) -> tuple[list[str], float | None]:
    wrong = troubles(v, shared, code=code) + one_error(v)
    told, kept = len(v.all("verdict")), len(stored(v.place))
    if kept < told:
        wrong.append(f"{kept} verdicts are stored (it had told of {told})")
    return wrong, ending(v, struck)


def full(trials: Trials, name: str, where: Callable[[Place], Path]) -> Row:
    """Fill a disk in the middle of a search: one error with a hint; with room again the same call goes on."""
    place = trials.place()
    candidates = trials.goods(6, compiled=True)
    with small(where(place), 8192):
        for folder in (place.home, place.scratch):
            folder.mkdir(exist_ok=True)
        if not (place.home / "cache").exists():
            (place.home / "cache").symlink_to(trials.folder / "cache")
        shared = victim.shared_memory()
        v = trials.search(place, candidates)
        try:
            v.until(lambda: bool(v.all("verdict")), PATIENCE_S)
            struck = time.monotonic()
            filler = fill(where(place))
            v.wait(PATIENCE_S)
            filler.unlink()
            # On a device images go to workers by memory: without a finalist no file is made there.
            if trials.target == "cuda" and v.status == 0:
                wrong, took = troubles(v, shared), ending(v, struck)
                saw = "nothing was written there any more"
            else:
                wrong, took = ended_with_one_error(v, struck, shared, 5)
                saw = words(v)
        finally:
            v.end()
        wrong += resumes(trials, place, candidates)
    return Row(name, not wrong, took, "; ".join([saw, *wrong]))


def store_limited(trials: Trials, name: str) -> Row:
    """No file of the process may grow past a limit, as on a disk that is full for it alone."""
    place, candidates, shared = trials.place(), trials.goods(40), victim.shared_memory()

    def work(tell: Tell) -> int:
        from kernelforge import _core

        call = _core.call

        def limiting(operation: str, **request: Any) -> dict[str, Any]:
            answer = call(operation, **request)
            if any(
                event["kind"] == "verdict" for event in answer.get("events", [])
            ):  # buffers were files, too
                resource.setrlimit(resource.RLIMIT_FSIZE, (200 << 10, resource.RLIM_INFINITY))
            return answer

        _core.call = limiting
        return optimize(tell, place)

    v = Victim(work, place, trials.start(candidates))
    try:
        v.wait(PATIENCE_S)
        struck = v.told[-1]["at"]
        wrong, took = ended_with_one_error(v, struck, shared, 5)
        saw = words(v)
    finally:
        v.end()
    few = candidates[: len(stored(place)) + 2]
    wrong += resumes(trials, place, few)
    return Row(name, not wrong, took, "; ".join([f"{len(few) - 2} verdicts were stored, {saw}", *wrong]))


def pack_full(trials: Trials, name: str) -> Row:
    """The disk of the pack is full when the search has ended: one error, no half of a pack; with room again the same call writes it."""
    place, shared = trials.place(), victim.shared_memory()
    place.net.write_text(POOL)
    out = place.folder / "disk"
    search = ("--out", str(out / "net.kfpack"), "--candidates", "4", "--ops", "max_pool2d*")
    with small(out, 64):
        v = trials.search(place, [], *search)
        try:
            v.until(lambda: bool(v.all("verdict")), PATIENCE_S)
            filler = fill(out)
            v.wait(PATIENCE_S)
            written = [t["at"] for t in v.all("writes") if t["path"] == str(out / "net.kfpack")]
            served = bool(v.all("plan"))
            half = sorted(p.name for p in out.iterdir() if p != filler)
            filler.unlink()
            if served and written:
                wrong, took = ended_with_one_error(v, written[-1], shared, 5)
            else:
                wrong, took = troubles(v, shared), None
            if half:
                wrong.append(f"half of a pack is left: {half}")
            saw = words(v) if served and written else "no winner, so no pack: nothing could be shown"
        finally:
            v.end()
        wrong += resumes(trials, place, [], *search)
        if served and not (out / "net.kfpack/pack.json").exists():
            wrong.append("with room again there is no pack")
    return Row(name, not wrong and served and bool(written), took, "; ".join([saw, *wrong]))


# ---- a device ------------------------------------------------------------------------------------------------------


def kill_workers(v: Victim) -> None:
    """Kill the workers of a search, its spare one, too."""
    for key, process in victim.descendants(v.pid).items():
        if process.startswith("kernelforge-wor") and victim.living({key: ""}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(key[0], signal.SIGKILL)


def driver_missing(trials: Trials, name: str) -> Row:
    """The driver's library goes away while a search runs, and its workers are killed: none can start. With it back the same call goes on."""
    place, candidates, shared = trials.place(), trials.goods(8), victim.shared_memory()
    library = place.folder / "libcuda.so.1"
    library.symlink_to(_driver())
    place.variables["KERNELFORGE_LIBCUDA"] = str(library)
    v = trials.search(place, candidates)
    try:
        v.until(lambda: bool(v.all("verdict")), PATIENCE_S)
        library.unlink()
        struck = time.monotonic()
        kill_workers(v)  # those that start from now on find no driver
        v.wait(PATIENCE_S)
        wrong, took = ended_with_one_error(v, struck, shared, 5)
        if library.name not in v.said():
            wrong.append(f"it does not name the driver's library: {v.said()[-300:].strip()}")
        saw = words(v)
    finally:
        v.end()
    library.symlink_to(_driver())
    wrong += resumes(trials, place, candidates)
    return Row(name, not wrong, took, "; ".join([saw, *wrong]))


def _driver() -> Path:
    said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    found = [
        line.split("=> ")[1].strip() for line in said.splitlines() if "libcuda.so.1" in line and "=> " in line
    ]
    named = os.environ.get("KERNELFORGE_LIBCUDA")
    return Path(named or next(iter(found), "/usr/lib/x86_64-linux-gnu/libcuda.so.1"))


def _hold(tell: Tell, leave: int) -> Any:
    """Take the device's memory but for `leave` bytes."""
    import torch

    torch.zeros(1, device="cuda")
    held = []
    for step in (1 << 32, 1 << 28, 1 << 25):
        while torch.cuda.mem_get_info()[0] - step > leave:
            held.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()
    tell(kind="holds", free=torch.cuda.mem_get_info()[0])
    return held


def memory_of_the_user(trials: Trials, name: str) -> Row:
    """The user's own tensors leave no room for inputs and references: the operator stays with eager, or the search ends with one error."""
    place, candidates, shared = trials.place(), trials.goods(3), victim.shared_memory()

    def work(tell: Tell) -> int:
        held = _hold(tell, 700 << 20)
        code = optimize(tell, place)
        del held
        return code

    v = Victim(work, place, trials.start(candidates))
    try:
        v.wait(PATIENCE_S)
        code = v.status if v.status in (0, 1, 5) else 0
        wrong = troubles(v, shared, code=code) + (one_error(v) if code else [])
        calls = v.all("called")
        took = ending(v, calls[-1]["at"]) if code and calls else None
        saw = words(v) or f"it ended with {v.status}, {len(v.all('verdict'))} verdicts"
    finally:
        v.end()
    wrong += resumes(trials, place, candidates)
    return Row(name, not wrong, took, "; ".join([saw, *wrong]))


def memory_of_the_worker(trials: Trials, name: str) -> Row:
    """Another process takes the device's memory in the middle of a search, and the worker is killed: the next one has none, until it is free again."""
    place, candidates, shared = trials.place(), trials.goods(24), victim.shared_memory()
    v = trials.search(place, candidates)
    other = trials.place()
    holder = Victim(lambda tell: _held(tell), other)
    try:
        v.until(lambda: bool(v.all("verdict")), PATIENCE_S)
        os.kill(holder.pid, signal.SIGUSR1)
        holder.until(lambda: bool(holder.all("holds")), PATIENCE_S)
        kill_workers(v)
        v.until(lambda: False, 3)
        holder.end()
        freed = time.monotonic()
        v.wait(PATIENCE_S)
        code = v.status if v.status in (0, 1, 5) else 0
        wrong = troubles(v, shared, code=code) + (one_error(v) if code else [])
        going = next_run(v, freed)
        bad = [b for b in verdicts(v) if b["status"] != "ok"]
        saw = (
            words(v)
            or f"{len(verdicts(v))} verdicts, not ok: {[(b['status'], b['detail'][:120]) for b in bad]}"
        )
    finally:
        holder.end() if holder.status is None else None
        v.end()
    wrong += resumes(trials, place, candidates)
    return Row(name, not wrong, going and going - freed, "; ".join([saw, *wrong]))


def _held(tell: Tell) -> int:
    """Wait for a signal, take the memory, and hold it until killed."""
    signal.sigwait([signal.SIGUSR1])
    held = _hold(tell, 100 << 20)
    signal.pause()
    return len(held)
