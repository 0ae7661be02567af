"""The doctor's checks of a CUDA device: driver, NVRTC, compute mode, MPS, memory, telemetry. Each tries the real thing.

On a machine where torch sees no GPU there is one note and nothing is missing: the host target works without.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from pathlib import Path

from . import _doctor_sandbox, _ext, _needs, _nvml, _nvrtc, _settings
from ._check import Check
from ._place import Place

_ALL = ("apply on cuda", "profile on cuda", "optimize on cuda")
_SEARCH = ("optimize on cuda",)
_COMPUTE_MODE = 20  # CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
_EXCLUSIVE, _PROHIBITED = 3, 2  # CUcomputemode
_LEAST_FREE = 4 << 30
_LEAST_CAPABILITY = (7, 5)


def _count() -> int:
    """Return how many GPUs torch can use; 0 without torch."""
    if importlib.util.find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _gpu() -> Check:
    if importlib.util.find_spec("torch") is None:
        return Check("gpu", None, "not looked for (no torch)")
    import torch

    count = _count()
    if count == 0:
        return Check(
            "gpu", None, f"{_without()}; the host target (CPU) works without", _why_none(torch.version.cuda)
        )
    names = ", ".join(torch.cuda.get_device_name(i) for i in range(count))
    capability = min(torch.cuda.get_device_capability(i) for i in range(count))
    old = capability < _LEAST_CAPABILITY
    return Check(
        "gpu",
        not old,
        f"{names}, compute capability {capability[0]}.{capability[1]}",
        "kernels are built for 7.5 and newer" if old else "",
        _ALL,
    )


def _without() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "none that torch can use" + (
        f" (CUDA_VISIBLE_DEVICES is `{visible}`)" if visible is not None else ""
    )


def _why_none(built_for: str | None) -> str:
    if built_for is None:
        return "this torch is built without CUDA"
    if _nvml.driver_version() is None:
        return f"no NVIDIA driver answers (torch is built for CUDA {built_for})"
    return f"the driver is {_nvml.driver_version()}, torch is built for CUDA {built_for}: is the driver old, or the device hidden?"


@functools.cache
def _info() -> dict[str, object]:
    return Place(0).info()


def _driver() -> Check | None:
    if _count() == 0:
        return None
    if _settings.read().disabled:
        return None
    _ext.load()
    info = _info()  # opens the device as a plan would: a Fault tells what is in the way
    speaks = int(str(info["driver"]))
    found = (
        f"{_nvml.driver_version() or 'version not told'}, speaks CUDA {speaks // 1000}.{speaks % 1000 // 10}"
    )
    buffers = (
        "shared buffers lie between unmapped pages"
        if info["vmm"]
        else "shared buffers by legacy IPC or copies, without unmapped pages around them"
    )
    return Check(
        "cuda driver",
        True if info["vmm"] else None,
        f"{found}; {buffers}",
        "" if info["vmm"] else "an access past the end of a tensor is found by its poison only",
        _ALL,
    )


def _nvrtc_check() -> Check | None:
    if _count() == 0:
        return None
    path = _nvrtc.find()
    version = _nvrtc.version(path) if path is not None else None
    if version is None:
        found, hint = _nvrtc.missing()
        return Check("nvrtc", False, found, hint, _SEARCH)
    speaks = int(str(_info()["driver"])) // 1000
    words = f"{version[0]}.{version[1]} (`{path}`)"
    if version[0] > speaks:
        return Check(
            "nvrtc",
            False,
            f"{words}: newer than the driver, which speaks CUDA {speaks}",
            "name an NVRTC of the driver's major version with KERNELFORGE_NVRTC, or update the driver",
            _SEARCH,
        )
    return Check("nvrtc", True, words, "", _SEARCH)


def _sanitizer() -> Check | None:
    if _count() == 0:
        return None
    path = _needs.sanitizer()
    if path is not None:
        return Check("sanitizer", True, f"`{path}`: finalists run once under its tools", "", _SEARCH)
    return Check(
        "sanitizer",
        None,
        "no compute-sanitizer (looked in PATH, CUDA_HOME, /usr/local/cuda)",
        "install the CUDA toolkit's compute-sanitizer; without it finalists are judged by all other gates, and their evidence says so",
        _SEARCH,
    )


def _counters() -> Check | None:
    if _count() == 0:
        return None
    path = _needs.ncu()
    if path == _needs.NO_COUNTERS:
        return Check("counters", True, "switched off (KERNELFORGE_NCU)", "", _SEARCH)
    if path is not None:
        return Check(
            "counters",
            True,
            f"`{path}`: authors are told what the hardware counted of a parent, where the driver lets it",
            "",
            _SEARCH,
        )
    return Check(
        "counters",
        None,
        "no ncu (looked in PATH, CUDA_HOME, /usr/local/cuda)",
        "install Nsight Compute, or name its ncu with KERNELFORGE_NCU; without it authors are told all but what the hardware counted",
        _SEARCH,
    )


def _sharing() -> Check | None:
    """Search needs two processes on the device, and a fault of the one must not end the other's context."""
    if _count() == 0:
        return None
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    if (pipe / "control").exists():
        return Check(
            "sharing",
            False,
            f"an MPS server is set up (`{pipe}`): a candidate that faults would end this process's context, too",
            "stop it (`echo quit | nvidia-cuda-mps-control`) or unset CUDA_MPS_PIPE_DIRECTORY; packs are served under MPS",
            _SEARCH,
        )
    mode = _mode()
    if mode in (_EXCLUSIVE, _PROHIBITED):
        words = "exclusive-process" if mode == _EXCLUSIVE else "prohibited"
        return Check(
            "sharing",
            False,
            f"the device is in {words} mode: the worker could not open it beside this process",
            "ask its administrator for the default mode (`nvidia-smi -c DEFAULT`)",
            _SEARCH,
        )
    return Check("sharing", True, "default mode, no MPS", "", _SEARCH)


def _mode() -> int:
    """Return the compute mode of device 0; 0, the default one, where the driver does not tell."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    device, mode = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return 0
    known = driver.cuDeviceGetAttribute(ctypes.byref(mode), _COMPUTE_MODE, device) == 0
    return mode.value if known else 0


def _memory() -> Check | None:
    if _count() == 0:
        return None
    import torch

    free, total = torch.cuda.mem_get_info(0)
    little = free < _LEAST_FREE
    return Check(
        "cuda memory",
        None if little else True,
        f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free",
        "references in float64 take several times what a model takes: free some for a search"
        if little
        else "",
    )


def _profiler() -> Check | None:
    if _count() == 0:
        return None
    from torch.profiler import ProfilerActivity, supported_activities

    works = ProfilerActivity.CUDA in supported_activities()  # type: ignore[no-untyped-call]
    return Check(
        "profiler",
        True if works else None,
        "kernel records by CUPTI" if works else "no CUPTI in this torch: calls are timed alone, by events",
        "" if works else "a torch wheel with CUDA has it",
    )


def _telemetry() -> Check | None:
    if _count() == 0:
        return None
    state = _nvml.read(str(_info()["pci"]))
    if "why" in state:
        return Check("telemetry", None, state["why"], "clocks and throttling are not seen; results say so")
    throttled = [w for w in state["throttle"] or [] if w not in _nvml.NO_TROUBLE]
    return Check(
        "telemetry",
        None if throttled else True,
        f"{state['clocks_sm_mhz']} MHz, {state['temperature_c']} C, throttled by {', '.join(throttled) or 'nothing'}",
        "timings taken under throttling are dropped" if throttled else "",
    )


CHECKS = (
    _gpu,
    _driver,
    _nvrtc_check,
    _sanitizer,
    _counters,
    _sharing,
    *_doctor_sandbox.checks("cuda sandbox tier", 0, _SEARCH, lambda: _count() > 0),
    _memory,
    _profiler,
    _telemetry,
)
