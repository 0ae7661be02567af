"""What this process is: the pins of a pack (docs/formats.md, `plan and pack`) and the `env` of result files.

It owns reading the machine's description. It refuses to compare: the runtime does that when a pack is opened.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from . import _nvml, _nvrtc, _settings
from ._place import HOST, Place

_CPUINFO = Path("/proc/cpuinfo")
# Best first; each needs all of its flags. The names are those of propose.Facts.
_INSTRUCTION_SETS = (
    ("avx512", ("avx512f", "avx512bw", "avx512dq", "avx512vl")),
    ("avx2", ("avx2", "fma")),
    ("sse2", ("sse2",)),
)


@functools.cache
def cpu() -> tuple[str, str]:
    """Return the CPU's model name and its best instruction set: ("AMD EPYC 9R14", "avx512")."""
    name = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.M)
    flags = _flags()
    isa = next((n for n, need in _INSTRUCTION_SETS if flags.issuperset(need)), platform.machine())
    return (name.group(1).strip() if name else platform.processor() or "unknown CPU"), isa


def _cpuinfo() -> str:
    try:
        return _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _flags() -> set[str]:
    line = re.search(r"^flags\s*:\s*(.+)$", _cpuinfo(), re.M)
    return set(line.group(1).split()) if line else set()


@functools.cache
def features() -> str:
    """Return the `features` pin of the host target: a hash of all the CPU's features.

    Candidates are compiled for exactly this CPU, and clouds call CPUs of several generations by one name: the model's name alone would let a pack
    with an instruction through that this machine does not have.
    """
    return hashlib.sha256(" ".join(sorted(_flags())).encode()).hexdigest()[:12]


def device() -> str:
    """Return the `device` pin of the host target."""
    return " ".join(cpu())


@functools.cache
def toolchain(compiler: str | None) -> str:
    """Return the compiler's name and version, `g++ 12.2.0`, or "" if there is none that answers."""
    if compiler is None:
        return ""
    try:
        done = subprocess.run(
            [compiler, "-dumpfullversion", "-dumpversion"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{Path(compiler).name} {done.stdout.split()[-1] if done.stdout.split() else '?'}"


def driver(place: Place) -> str:
    """Return the version of the GPU's driver, `580.95.05`; where the system does not tell, the CUDA version that it speaks, `cuda 13.0`."""
    found = _nvml.driver_version()
    if found is None:
        speaks = int(place.info()["driver"])
        found = f"cuda {speaks // 1000}.{speaks % 1000 // 10}"
    return found


def pins(runtime_abi: int, compiler: str | None = None, place: Place = HOST) -> dict[str, Any]:
    """Return the pins of this process for a target; imports torch. On CUDA the device is opened."""
    import torch

    if place.cuda:
        return {
            "torch": torch.__version__,
            "device": str(place.info()["name"]),
            "driver": driver(place),
            "runtime": str(runtime_abi),
            "toolchain": _nvrtc.toolchain(),
        }
    return {
        "torch": torch.__version__,
        "device": device(),
        "features": features(),
        "threads": torch.get_num_threads(),
        "runtime": str(runtime_abi),
        "toolchain": toolchain(compiler or _settings.compiler()),
    }


def environment(place: Place = HOST) -> dict[str, Any]:
    """Return the `env` block of a result file."""
    import torch

    name, isa = cpu()
    return {
        "device": str(place.info()["name"]) if place.cuda else f"{name} {isa}",
        "driver": driver(place) if place.cuda else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "native_overrides": [],
        "python": platform.python_version(),
        "cpu": name,
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "toolchain": _nvrtc.toolchain() if place.cuda else toolchain(_settings.compiler()),
    }
