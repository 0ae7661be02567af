"""The torch extension (torchext/): hooks at torch's dispatcher, capture, guarded dispatch, counters, timing.

Times are nanoseconds of one monotonic clock. `call` dicts are those of docs/formats.md. Devices: `"cpu"`, `"cuda:0"` or a torch.device.
Errors of the runtime are `Fault`.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch

class Fault(RuntimeError):
    """An error of the runtime: text and hint, and `code`, a kfr_status (csrc/include/kf_runtime.h)."""

    code: int

def install() -> dict[str, Any]:
    """Register the hooks once: {"hooked": [overload], "refused": [{"overload", "why"}], "missing": [overload], "disabled": bool}."""

def abi() -> int:
    """Return the version of the runtime's C interface."""

def build_info() -> dict[str, Any]:
    """Return what this was built for: {"torch", "runtime_abi", "compiler", "targets"}."""

def op_table() -> list[dict[str, Any]]:
    """Return ops.def: [{"overload", "forms", "template", "composite", "servable"}]. template: built-in templates may serve it."""

def set_enabled(on: bool) -> None:
    """Serve plans or not, in the whole process. Has no effect where KERNELFORGE_DISABLE=1."""

def enabled() -> bool: ...

class thread_off:
    """A context manager: this thread's hooks neither serve nor observe. Nests."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def capture_begin(payloads: int = 0, payload_bytes: int = 0) -> None:
    """Record every hooked call of every thread; nothing is served meanwhile. Keeps up to `payloads` copies of the arguments a distinct call,
    `payload_bytes` together."""

def capture_end() -> list[dict[str, Any]]:
    """Return one record for each distinct call, in order of appearance: {"overload", "call", "calls", "total_ns", "samples_ns" (the first 256),
    "children", "layout", "payloads" (lists of Python arguments as they were before the call, with their strides), "align" (per input slot: the
    largest power of two up to 4096 that divided every address), "composite", "grad", "target"}. A call that no plan could serve is left out."""

def discovery_begin() -> None:
    """Count every operator that the dispatcher runs, hooked or not."""

def discovery_end() -> list[dict[str, Any]]:
    """Return [{"name", "calls", "total_ns", "self_ns", "hooked"}], largest self_ns first."""

def trace_begin() -> None:
    """Log every hooked call with what became of it."""

def trace_end() -> list[dict[str, Any]]:
    """Return [{"overload", "call", "plan": id or None, "reason": why eager ran it or None, "depth": hooked calls around it}] in order of start."""

class Plan:
    """A plan with its code loaded. Passes to the runtime when published."""

    @property
    def id(self) -> str: ...
    @property
    def overload(self) -> str: ...
    @property
    def published(self) -> bool: ...
    @property
    def hits(self) -> int: ...
    @property
    def info(self) -> dict[str, Any]: ...

def plan_open(json: str, image: bytes, device: Any = "cpu") -> Plan:
    """Check and load a plan (docs/formats.md) and its code image."""

def pack_open(folder: str, pins: str | None = None, device: Any = "cpu") -> list[Plan]:
    """Load a pack. pins: JSON of what this process is; None skips the comparison."""

def publish(plans: Sequence[Plan]) -> None:
    """Replace what is served, in one step."""

def unpublish() -> None: ...
def plans() -> list[dict[str, Any]]:
    """Return the `info` of every plan that is served now."""

def stats(reset: bool = False) -> dict[str, Any]:
    """Return {"plans": [{"id", "overload", "hits", "published"}], "ops": {overload: {"hits", "fallbacks": {reason: n}}}} since the last reset."""

class Buffer:
    """Memory shared by file descriptor, between two unmapped ranges."""

    def __init__(self, bytes: int) -> None: ...
    @property
    def fd(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def data_ptr(self) -> int: ...
    def tensor(
        self, offset: int, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        """Return a view that keeps the buffer alive. offset in bytes."""

def call(overload: str, args: Sequence[Any]) -> list[Any]:
    """Call an overload through the dispatcher, without the GIL; a number in place of a tensor is a wrapped number."""

def time_calls(
    overload: str,
    arg_sets: Sequence[Sequence[Any]],
    samples: int,
    inner: int,
    plans: bool = True,
    warm: bool = True,
) -> list[float]:
    """Return `samples` times of a call, each the mean of `inner` calls in a row over the sets. plans False: eager. warm: one untimed pass first."""

def time_pairs(
    overload: str, arg_sets: Sequence[Sequence[Any]], blocks: int, inner: int, seed: int = 0
) -> dict[str, list[float]]:
    """Return {"eager_ns", "ours_ns"}: one sample of each a block, in random order."""

def time_reference(samples: int) -> list[float]:
    """Return times of the runtime's reference kernel with torch's threads."""
