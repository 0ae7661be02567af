"""The torch extension (torchext/): hooks at torch's dispatcher, capture, guarded dispatch, counters, timing.

Times are nanoseconds of one monotonic clock. `call` dicts are those of docs/formats.md. Devices: `"cpu"`, `"cuda:0"`, a torch.device, or a number: -1
for the host, 0, 1, ... for CUDA. Errors of the runtime are `Fault`.

How a captured call meets its device time: while capture is on, eager runs each captured call inside a profiler range `kf#<id>`, `id` being that of
its record. Under torch.profiler with CUDA activities it is an event of that name; its `device_time_total` is the time of the kernels of this one call,
those of the operators inside it included. `kf#payload` is the copying of arguments, no work of the model.
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
    """Return what this was built for: {"torch", "runtime_abi", "compiler", "targets", "torch_cuda": whether the torch here has CUDA}."""

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
    `payload_bytes` together, each on the device of its argument. Never waits for a device. A call whose work goes into a CUDA graph is recorded without copies."""

def capture_end() -> list[dict[str, Any]]:
    """Return one record for each distinct call, in order of appearance: {"id", "overload", "call", "calls", "total_ns", "samples_ns" (the first 256),
    "children", "layout", "payloads" (lists of Python arguments as they were before the call, with their strides), "align" (per input slot: the
    largest power of two up to 4096 that divided every address), "composite", "grad", "target", "device"}. A call that no plan could serve is left out.

    On CUDA the times are those of the host's part of a call, which returns before its work is done: device times are found by `kf#<id>` (above)."""

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
    def fallbacks(self) -> dict[str, int]:
        """Calls that the guard matched and eager ran, by reason, since the last reset."""
    @property
    def info(self) -> dict[str, Any]: ...

def plan_open(json: str, image: bytes, device: Any = "cpu") -> Plan:
    """Check and load a plan (docs/formats.md) and its code image."""

def pack_open(folder: str, pins: str | None = None, device: Any = "cpu") -> list[Plan]:
    """Load a pack. pins: JSON of what this process is; None skips the comparison."""

def publish(plans: Sequence[Plan]) -> None:
    """Replace what is served: the plans of the host and of each CUDA device, in one step a device. If a device refuses, all stays as it was."""

def unpublish() -> None:
    """Serve nothing, on any device. CUDA graphs that were captured before keep the kernels that they captured."""

def plans() -> list[dict[str, Any]]:
    """Return the `info` of every plan that is served now."""

def stats(reset: bool = False) -> dict[str, Any]:
    """Return {"plans": [{"id", "overload", "hits", "fallbacks", "published"}], "ops": {overload: {"hits", "fallbacks": {reason: n}}}} since the last reset."""

class Buffer:
    """Memory shared by file descriptor, between two unmapped ranges, zeroed; of the host or of a CUDA device, never from torch's allocators."""

    def __init__(self, bytes: int, device: Any = -1) -> None: ...
    @property
    def device(self) -> int: ...
    def fill(self, offset: int, bytes: int, value: int) -> None:
        """Set bytes; returns when they are set."""

    def push(self) -> None:
        """Give the process that imported it what is here now, where each has memory of its own (KERNELFORGE_BUFFERS=copy); else nothing happens."""

    def pull(self) -> None:
        """Take what that process gave."""

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
    """Return `samples` times of a call, each the mean of `inner` calls in a row over the sets. plans False: eager. warm: one untimed pass first.

    Host tensors only: a CUDA call returns before its work is done (Fault; see run_calls and host_cost)."""

def time_blocks(
    overload: str,
    arg_sets: Sequence[Sequence[Any]],
    blocks: int,
    inner: int,
    seed: int = 0,
    control: bool = False,
    padding: int = 0,
) -> dict[str, list[float]]:
    """Return {"eager_ns", "ours_ns", "again_ns"}: one sample of each a block, in random order, over one walk through the sets. Host tensors only.

    control: time eager a second time in each block, as if it were a candidate; else `again_ns` is empty. padding: calls of eager that its samples make
    and do not count."""

def host_cost(
    overload: str,
    arg_sets: Sequence[Sequence[Any]],
    samples: int,
    inner: int,
    plans: bool = True,
    warm: bool = True,
) -> list[float]:
    """Return `samples` host times of a call, on any device: how long it keeps the calling thread, the device's queue not full.

    Each is the mean of `inner` (1 to 256) calls in a row over the sets, begun when the device has nothing to do; without the GIL."""

def hook_cost(
    overload: str, arg_sets: Sequence[Sequence[Any]], blocks: int, inner: int, seed: int = 0
) -> dict[str, list[float]]:
    """Return {"bare_ns", "hooked_ns"}: host times of a call as if the operator had no hook, and through the dispatcher; one of each a block, in random order.

    As `host_cost`, under torch.inference_mode only."""

def run_calls(overload: str, arg_sets: Sequence[Sequence[Any]], n: int, plans: bool = True) -> None:
    """Call an overload n times over the sets, round robin, on the current stream, without the GIL; every result is freed at once.

    Example:
        >>> graph = torch.cuda.CUDAGraph()
        >>> with torch.cuda.graph(graph):
        ...     _C.run_calls("aten::relu", sets, 20, plans=False)
        >>> stream = torch.cuda.current_stream().cuda_stream
        >>> ns = [t / 20 for t in _C.graph_time("cuda:0", graph.raw_cuda_graph_exec(), stream, 32)]
    """

def graph_time(device: Any, graph_exec: int, stream: int, samples: int) -> list[float]:
    """Return times of `samples` replays of a captured graph, by events. The current stream's work is waited for first, and one replay is not counted.

    graph_exec: a CUgraphExec (`torch.cuda.CUDAGraph.raw_cuda_graph_exec()`). stream: `torch.cuda.Stream.cuda_stream`; 0: one of the runtime's own."""

def time_reference(samples: int, device: Any = -1) -> list[float]:
    """Return times of the runtime's reference kernel: with torch's threads on the host, on the current stream of a CUDA device."""

def device_info(device: Any) -> dict[str, Any]:
    """Return what a CUDA device is: {"name", "capability": (major, minor), "sm_count", "driver" (13000 for CUDA 13.0), "warp", "l2_bytes", "smem_optin",
    "memory_bytes", "vmm", "read_only", "uuid", "pci"}. Opens the driver and the device's primary context, the one that torch uses.

    Raises:
        Fault: no driver, no such device, or one that cannot be used (exclusive mode, MPS); the hint says which.
    """
