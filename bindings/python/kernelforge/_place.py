"""Where a model runs: the host, or one CUDA device. The two differ in how one waits, how memory is counted and how a forward is timed.

It owns these differences, so that the rest of the package has one path. It refuses kernels and plans; how single calls are timed is
`referee/ruler.py`'s. torch is imported when a method first needs it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _ext

_KEEP_FREE = 4 << 30
_HOST = -1  # KFR_HOST of csrc/include/kf_runtime.h
_SYSTEM = 9  # KFR_SYSTEM there: no memory for a buffer


@dataclass(frozen=True)
class Place:
    """One target and device. ordinal: a CUDA device as this process counts them, -1 for the host."""

    ordinal: int = _HOST

    @property
    def cuda(self) -> bool:
        return self.ordinal >= 0

    @property
    def target(self) -> str:
        """The word of cards, packs and studies: `host` or `cuda`."""
        return "cuda" if self.cuda else "host"

    @property
    def device(self) -> str:
        """The name that torch and the extension know it by: `cpu`, `cuda:0`.

        Example:
            >>> Place().device, Place(1).device
            ('cpu', 'cuda:1')
        """
        return f"cuda:{self.ordinal}" if self.cuda else "cpu"

    def info(self) -> dict[str, Any]:
        """Return what the driver says of the device: kfr_device_info. CUDA only; opens the device."""
        return dict(_ext.load().device_info(self.ordinal))

    def uuid(self) -> str:
        """Return the device's own name, `GPU-01234567-89ab-cdef-0123-456789abcdef`: ordinals differ between processes, this does not."""
        u = str(self.info()["uuid"]).replace("-", "").removeprefix("GPU")
        return f"GPU-{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}"

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which this device is torch's current one."""
        import torch

        return torch.cuda.device(self.ordinal) if self.cuda else nullcontext()

    def wait(self) -> None:
        """Return when everything that was asked of the device is done."""
        if self.cuda:
            import torch

            torch.cuda.synchronize(self.ordinal)

    def trim(self) -> None:
        """Give memory that torch keeps for later back to the driver: shared buffers and the worker come from there."""
        if self.cuda:
            import torch

            with self.current():
                torch.cuda.empty_cache()

    @contextlib.contextmanager
    def capturing(self, graph: Any, pool: Any) -> Iterator[None]:
        """Capture the block on the current stream. A capture that fails is ended, torch is set right, and the error goes on.

        Not `torch.cuda.graph`: that empties torch's cache each time, which costs more than a candidate's whole timing.
        """
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield
            graph.capture_end()
        except Exception:
            with contextlib.suppress(RuntimeError):  # it says the same of a capture that was broken off
                graph.capture_end()
            self.mend_capture()
            raise

    def mend_capture(self) -> None:
        """Set torch right after a capture that failed: its generator of the device still counts as captured, and every random function would raise
        until some capture succeeds. This is one of a single addition."""
        import torch

        with self.current():
            one = torch.zeros(1, device=self.device)
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            graph = torch.cuda.CUDAGraph()
            self.wait()
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="thread_local")
                one.add_(1)
                graph.capture_end()

    def leave_room(self) -> None:
        """Trim if the driver has little left: outputs and workspaces of the worker come from there."""
        if self.cuda:
            import torch

            if torch.cuda.mem_get_info(self.ordinal)[0] < _KEEP_FREE:
                self.trim()

    def free_bytes(self) -> int:
        """Return the memory that is free now, what torch could give back included, and no more than torch may take where that is limited for this process;
        4 GiB where the machine does not tell."""
        if self.cuda:
            import torch

            held = torch.cuda.memory_allocated(self.ordinal)
            free, whole = torch.cuda.mem_get_info(self.ordinal)
            ours = int(whole * torch.cuda.get_per_process_memory_fraction(self.ordinal)) - held
            return max(0, min(int(free + torch.cuda.memory_reserved(self.ordinal) - held), ours))
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path("/proc/meminfo").read_text().splitlines():
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
        with contextlib.suppress(OSError, ValueError):
            return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return 4 << 30

    def forward_ms(self, forward: Callable[[], Any]) -> float:
        """Return how long one forward takes, milliseconds: by the clock on the host, between two events on a device that was idle."""
        if not self.cuda:
            begin = time.perf_counter_ns()
            forward()
            return (time.perf_counter_ns() - begin) / 1e6
        import torch

        with self.current():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
            start.record()
            forward()
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end))


HOST = Place()


def place_of(device: Any) -> Place:
    """Return the place of a torch device or its name; `cuda` without a number is torch's current device.

    Example:
        >>> place_of("cpu"), place_of("cuda:1")
        (Place(ordinal=-1), Place(ordinal=1))
    """
    name, _, number = str(device).partition(":")
    if name != "cuda":
        return HOST
    if number:
        return Place(int(number))
    import torch

    return Place(torch.cuda.current_device())


def out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that a device has no room: torch's own, or the runtime's for a shared buffer."""
    import torch

    if isinstance(error, torch.OutOfMemoryError) or getattr(error, "code", 0) == _SYSTEM:
        return True
    return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()


def attempt(place: Place, make: Callable[[], Any], give_back: Callable[[], None] = lambda: None) -> bool:
    """Carry out `make`, once more with everything given back where a device has no room; return whether it was done.

    give_back: called before the second attempt, to let go of what can be made again.
    """
    for _ in range(2):
        try:
            make()
            return True
        except RuntimeError as e:
            if not place.cuda or not out_of_memory(e):
                raise
        # Not in the handler: there the exception still holds the frames, and these hold tensors.
        give_back()
        gc.collect()
        place.trim()
    return False
