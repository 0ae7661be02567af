"""NVRTC through ctypes: CUDA source to cubin, for tests that need device code without the Go side. Compiling needs no GPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence

from kernelforge import _nvrtc

OPTIONS = ("--std=c++17", "-default-device")


class CompileError(Exception):
    """NVRTC refused a source; the text is its log, then the source with line numbers."""


@functools.cache
def library() -> ctypes.CDLL:
    """Return NVRTC.

    Raises:
        FileNotFoundError: it is nowhere.
    """
    found = _nvrtc.find()
    if found is None:
        raise FileNotFoundError(
            "load NVRTC: found nowhere\nhint: install a torch build with CUDA, or set KERNELFORGE_NVRTC"
        )
    lib = ctypes.CDLL(str(found))
    text, program = ctypes.c_char_p, ctypes.c_void_p
    lib.nvrtcGetErrorString.restype = text
    lib.nvrtcCreateProgram.argtypes = [
        *(ctypes.POINTER(program), text, text, ctypes.c_int),
        *(ctypes.POINTER(text), ctypes.POINTER(text)),
    ]
    lib.nvrtcCompileProgram.argtypes = [program, ctypes.c_int, ctypes.POINTER(text)]
    for name in ("ProgramLog", "CUBIN"):
        getattr(lib, f"nvrtcGet{name}Size").argtypes = [program, ctypes.POINTER(ctypes.c_size_t)]
        getattr(lib, f"nvrtcGet{name}").argtypes = [program, text]
    lib.nvrtcDestroyProgram.argtypes = [ctypes.POINTER(program)]
    return lib


def _check(status: int, what: str) -> None:
    if status != 0:
        raise CompileError(f"{what}: {library().nvrtcGetErrorString(status).decode()} ({status})")


def _texts(values: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * max(len(values), 1))(*(v.encode() for v in values))


def compile(
    source: str, arch: str, options: Sequence[str] = (), headers: Mapping[str, str] | None = None
) -> bytes:
    """Return the cubin of a source.

    Args:
        source: CUDA C++; entry points are `extern "C" __global__`.
        arch: `sm_90a`, `sm_80`, ...
        options: beside `OPTIONS` and the architecture.
        headers: name -> text of what the source may include.

    Raises:
        CompileError: the log and the source.
    """
    lib, headers = library(), dict(headers or {})
    program = ctypes.c_void_p()
    _check(
        lib.nvrtcCreateProgram(
            ctypes.byref(program),
            source.encode(),
            b"test.cu",
            len(headers),
            _texts(list(headers.values())),
            _texts(list(headers)),
        ),
        "create a program",
    )
    try:
        flags = [f"--gpu-architecture={arch}", *OPTIONS, *options]
        status = lib.nvrtcCompileProgram(program, len(flags), _texts(flags))
        if status != 0:
            numbered = "\n".join(f"{n:4} {line}" for n, line in enumerate(source.splitlines(), 1))
            raise CompileError(
                f"compile for {arch} with {flags}:\n{_read(program, 'ProgramLog').decode()}\n{numbered}"
            )
        return _read(program, "CUBIN")
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _read(program: ctypes.c_void_p, what: str) -> bytes:
    lib, size = library(), ctypes.c_size_t()
    _check(getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"size of the {what}")
    data = ctypes.create_string_buffer(size.value)
    _check(getattr(lib, f"nvrtcGet{what}")(program, data), f"read the {what}")
    return data.raw if what == "CUBIN" else data.value


def arch_of(capability: tuple[int, int]) -> str:
    """Return the architecture that candidates are compiled for on a device of this compute capability."""
    return {(9, 0): "sm_90a", (10, 0): "sm_100a"}.get(capability, f"sm_{capability[0]}{capability[1]}")
