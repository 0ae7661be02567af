"""Where NVRTC is, and which: the compiler of CUDA candidates. Looked for in this order: `KERNELFORGE_NVRTC`, the torch environment, a CUDA toolkit,
the loader's own path.

It owns finding the library and asking it for its version. It refuses to compile: that is the compile pool's, in processes of its own.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from . import _settings

# Below the folder that holds torch, or the libraries' own. The wheels of CUDA 13 put all libraries in one folder, those of CUDA 12 one in each; torch may carry its own.
_IN_TORCH = (
    "nvidia/cu[0-9]*/lib/libnvrtc.so.*",
    "nvidia/cuda_nvrtc/lib/libnvrtc.so.*",
    "torch/lib/libnvrtc.so*",
    "torch/lib/libnvrtc-*.so*",
)
_IN_TOOLKIT = ("lib64/libnvrtc.so", "targets/x86_64-linux/lib/libnvrtc.so", "lib/libnvrtc.so")


def find() -> Path | None:
    """Return the library (a bare name where only the loader knows its folder), or None where there is none."""
    asked = _settings.read().nvrtc
    if asked is not None:
        return Path(asked).expanduser()
    return next(_places(), None)


def _places() -> Iterator[Path]:
    for packages in _packages():
        for pattern in _IN_TORCH:
            found = (p for p in packages.glob(pattern) if "builtins" not in p.name and ".alt." not in p.name)
            yield from sorted(found, reverse=True)
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            yield from (Path(root) / name for name in _IN_TOOLKIT if (Path(root) / name).exists())
    known = ctypes.util.find_library("nvrtc")
    if known:
        yield Path(known)


def _packages() -> list[Path]:
    """Return the folders that hold torch and the wheels of NVIDIA's libraries: usually one, but two where one of them is the user's own."""
    folders: dict[Path, None] = {}
    for name in ("torch", "nvidia"):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            folders[Path(place).parent] = None
    return list(folders)


@functools.cache
def version(path: Path) -> tuple[int, int] | None:
    """Return major and minor version of a library, or None where it is none that answers."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        library = ctypes.CDLL(str(path))
        if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return major.value, minor.value


def toolchain() -> str:
    """Return the pin of packs, `nvrtc 13.0`, or "" where none was found."""
    path = find()
    found = version(path) if path is not None else None
    return f"nvrtc {found[0]}.{found[1]}" if found else ""


def missing() -> tuple[str, str]:
    """Return what was found in place of NVRTC, and the hint."""
    path = find()
    found = (
        f"`{path}` is no NVRTC that can be loaded"
        if path is not None
        else "no NVRTC found (looked in the torch environment, CUDA_HOME, the loader path)"
    )
    return (
        found,
        "install a torch build with CUDA, or set KERNELFORGE_NVRTC to libnvrtc.so; packs that exist are served without one",
    )
