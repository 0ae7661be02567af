"""Telemetry of a GPU through the driver's own library (`libnvidia-ml.so.1`): clocks, power, temperature, throttling, memory, driver version.

It owns the few functions of NVML that a profile shows, called through ctypes: nothing needs to be installed. It never raises for want of the
library: `read` then says why there is nothing. The worker has its own, richer reader (go/nvml); the words are the same.
Source: nvml.h of the driver's development kit.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_VERSION_FILE = Path("/sys/module/nvidia/version")
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_GPU = 0  # nvmlTemperatureSensors_t

# nvmlClocksEventReasons: bit -> word
NO_TROUBLE = ("gpu_idle", "applications_clocks_setting")
REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64))


@functools.cache
def _open(name: str) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(name)
        return library if library.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


def reasons(bits: int) -> list[str]:
    """Return the words for a set of clock event reasons.

    Example:
        >>> reasons(0x44)
        ['sw_power_cap', 'hw_thermal_slowdown']
    """
    return [word for bit, word in REASONS.items() if bits & bit]


def read(pci: str) -> dict[str, Any]:
    """Return the state of the GPU at a PCI address: {"clocks_sm_mhz", "clocks_mem_mhz", "throttle", "power_w", "temperature_c", "memory_used_bytes"}.

    What cannot be read is None; where nothing can, {"why": words} is all there is.

    Example:
        >>> read("0000:19:00.0")["throttle"]
        []
    """
    library, device = _open(LIBRARY), _device(LIBRARY, pci)
    if library is None:
        return {"why": f"no telemetry: `{LIBRARY}` cannot be used"}
    if device is None:
        return {"why": f"no telemetry: NVML knows no GPU at `{pci}`"}
    power = _number(library, device, "nvmlDeviceGetPowerUsage", ctypes.c_uint)
    memory = _Memory()
    known = library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
    return {
        **_clocks(library, device),
        "clocks_mem_mhz": _number(
            library, device, "nvmlDeviceGetClockInfo", ctypes.c_uint, ctypes.c_int(_MEMORY)
        ),
        "power_w": None if power is None else power / 1e3,
        "temperature_c": _number(
            library, device, "nvmlDeviceGetTemperature", ctypes.c_uint, ctypes.c_int(_GPU)
        ),
        "memory_used_bytes": int(memory.used) if known else None,
    }


def clocks(pci: str) -> Callable[[], dict[str, Any]] | None:
    """Return a function that reads {"clocks_sm_mhz", "throttle"} of the GPU at a PCI address, quick enough to stand beside every sample.

    It says 0 and [] for what cannot be read; without NVML there is None in its place.
    """
    library, device = _open(LIBRARY), _device(LIBRARY, pci)
    if library is None or device is None:
        return None

    def read_both() -> dict[str, Any]:
        found = _clocks(library, device)
        return {"clocks_sm_mhz": found["clocks_sm_mhz"] or 0, "throttle": found["throttle"] or []}

    return read_both


@functools.cache
def _device(name: str, pci: str) -> ctypes.c_void_p | None:
    library, device = _open(name), ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByPciBusId_v2(pci.encode(), ctypes.byref(device)) != 0:
        return None
    return device


def _clocks(library: ctypes.CDLL, device: ctypes.c_void_p) -> dict[str, Any]:
    bits = _number(library, device, "nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
    return {
        "clocks_sm_mhz": _number(library, device, "nvmlDeviceGetClockInfo", ctypes.c_uint, ctypes.c_int(_SM)),
        "throttle": None if bits is None else reasons(bits),
    }


def _number(
    library: ctypes.CDLL, device: ctypes.c_void_p, function: str, kind: Any, *more: Any
) -> int | None:
    value = kind()
    entry = getattr(library, function, None)
    if entry is None or entry(device, *more, ctypes.byref(value)) != 0:
        return None
    return int(value.value)


def driver_version() -> str | None:
    """Return the version of the installed driver, `580.95.05`, or None where neither NVML nor the kernel module tells."""
    library = _open(LIBRARY)
    if library is not None:
        text = ctypes.create_string_buffer(96)
        if library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) == 0:
            return text.value.decode()
    try:
        return _VERSION_FILE.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
