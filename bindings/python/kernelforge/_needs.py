"""What a search needs of the machine, by target: the compiler of candidates, room to judge them, and what the core is told of both.

It refuses to look twice: what is missing is an error or a reason before anything is measured.
"""

from __future__ import annotations

import math
import os
import shutil
from typing import Any

from . import _cxx, _nvrtc, _settings, _turns
from ._place import Place
from .errors import EnvironmentFault

_REFERENCE_BYTES = 100  # of a device's memory for each element of a call's largest tensor, while its reference in float64 is made
NO_COUNTERS = "off"  # in place of ncu's path, as the core has it
# Decide which device an ordinal means, and through which driver, as they are now: the core sees those of the process's start.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERNELFORGE_LIBCUDA", "LD_LIBRARY_PATH")


def compiler(place: Place) -> str:
    """Return the compiler of candidates: a C++ compiler for the host, NVRTC for CUDA.

    Raises:
        EnvironmentFault: there is none, or it cannot compile.
    """
    if place.cuda:
        library = _nvrtc.find()
        if library is None or _nvrtc.version(library) is None:
            found, hint = _nvrtc.missing()
            raise EnvironmentFault(f"search kernels on {place.device}: {found}", hint=hint)
        return str(library)
    program = _settings.compiler()
    if program is None:
        found, hint = _settings.no_compiler()
        raise EnvironmentFault(f"search kernels: {found}", hint=hint)
    wrong = _cxx.trouble(program)
    if wrong is not None:
        raise EnvironmentFault(f"search kernels: the compiler {wrong[0]}", hint=wrong[1])
    return program


def tools(place: Place, program: str) -> dict[str, Any]:
    """Return the settings of a study that say what compiles and runs its candidates (docs/formats.md, `settings`)."""
    if not place.cuda:
        return {"compiler": program}
    return {
        "nvrtc": program,
        "device": place.ordinal,
        "uuid": place.uuid(),
        "turns": _turns.path(place),
        **{name: found for name, found in (("sanitizer", sanitizer()), ("ncu", ncu())) if found},
        "variables": {k: os.environ[k] for k in _VISIBLE if k in os.environ},
    }


def sanitizer() -> str | None:
    """Return the path of NVIDIA's compute-sanitizer, None where there is none."""
    return of_toolkit("compute-sanitizer")


def ncu() -> str | None:
    """Return the path of Nsight Compute's ncu, "off" where KERNELFORGE_NCU says so, None where there is none.

    Raises:
        EnvironmentFault: KERNELFORGE_NCU names no program.
    """
    wish = _settings.read().ncu
    if wish is None or wish == NO_COUNTERS:
        return wish or of_toolkit("ncu")
    found = shutil.which(wish)
    if found is None:
        raise EnvironmentFault(
            f"read hardware counters: KERNELFORGE_NCU is `{wish}`, which is no program",
            hint=f"name ncu by its path, or set it to `{NO_COUNTERS}`",
        )
    return os.path.abspath(found)


def of_toolkit(program: str) -> str | None:
    """Return the path of a program of the CUDA toolkit, None where there is none: PATH first, then the toolkit's folder."""
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [os.environ.get("PATH", ""), *(os.path.join(t, "bin") for t in toolkits if t)]
    return shutil.which(program, path=os.pathsep.join(places))


def lacking(card: dict[str, Any], place: Place) -> str:
    """Return why a device has no room to judge a card, or ""."""
    from .referee.calls import slot_descriptors

    calls = [v["call"] for v in card["variants"]]
    sizes = [
        d["sizes"] for call in calls for d in (*call["outputs"], *(s for _, s in slot_descriptors(call)))
    ]
    need, free = _REFERENCE_BYTES * max(map(math.prod, sizes)), place.free_bytes()
    if need <= free:
        return ""
    return f"no room to judge it: about {need / 2**30:.0f} GiB of device memory ({free / 2**30:.0f} GiB are free)"
