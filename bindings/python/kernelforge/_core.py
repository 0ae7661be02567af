"""The door to the Go core (`libkernelforge.so`): opened at the first call, never unloaded, refused after a fork.

It owns the ctypes signatures and the fork guard. It refuses to know what an operation means: JSON in, JSON out (docs/formats.md, `the core library`).
Threads: any. The GIL is free during a call, and no call takes longer than 200 ms, so Ctrl-C stays prompt.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from pathlib import Path
from typing import Any

from . import errors

ABI_VERSION = 1
LIB_FOLDER = Path(__file__).parent / "lib"
LIBRARY = LIB_FOLDER / "libkernelforge.so"
RUNTIME = LIB_FOLDER / "libkfruntime.so"
WORKER = LIB_FOLDER / "kernelforge-worker"

# A core used by search and store needs little: the limit keeps a leak from taking the user's memory with it.
_CONFIGURATION = {"max_procs": 2, "memory_limit_bytes": 512 << 20}

_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_forked = False  # True in a child of a process that had loaded the core: Go does not survive fork()


def _after_fork_in_child() -> None:
    global _forked, _lock
    _forked = _forked or _library is not None
    _lock = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


def call(operation: str, **request: Any) -> dict[str, Any]:
    """Return the `result` of one operation of the core.

    Raises:
        KernelForgeError: the core answered with an error; its code decides the class.
        EnvironmentFault: the library is not built, has another version, or this process is a fork of one that had loaded it.

    Example:
        >>> call("version")["abi"]
        1
    """
    library = _load()
    op = operation.encode()
    body = encoded(operation, **request)
    out, size = ctypes.c_void_p(), ctypes.c_int64()
    rc = library.kf_call(op, len(op), body, len(body), ctypes.byref(out), ctypes.byref(size))
    return _answer(library, operation, rc, out, size)


def encoded(operation: str, **request: Any) -> bytes:
    """Return a request as the core reads it.

    Raises:
        EnvironmentFault: a name in it is no text: a path with bytes that this process's locale does not have.
    """
    try:
        return json.dumps(request, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError as e:
        # Escaped, it would pass, and the core would read another name than the one that was meant.
        name = e.object[e.object.rfind('"', 0, e.start) + 1 : e.object.find('"', e.end)]
        raise errors.EnvironmentFault(
            f"{operation}: the name {name!a} is no text in this locale",
            hint="set a locale of UTF-8 (`LC_ALL=C.UTF-8`) or PYTHONUTF8=1, or name folders in ASCII (KERNELFORGE_HOME, --store, TMPDIR)",
        ) from e


def loaded() -> bool:
    """Return whether this process holds the core."""
    return _library is not None


def _load() -> ctypes.CDLL:
    global _library
    if _forked:
        raise errors.EnvironmentFault(
            f"call the core in process {os.getpid()}: it is a fork of a process that had loaded it (Go does not survive fork)",
            hint="search and profile in the parent, or start the child with the `spawn` or `forkserver` method",
        )
    with _lock:
        if _library is None:
            _library = _open(LIBRARY)
        return _library


def _open(path: Path) -> ctypes.CDLL:
    if not path.exists():
        raise errors.EnvironmentFault(
            f"load the core: `{path}` does not exist",
            hint="build it: `make build`, or install again with pip",
        )
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        library.kf_abi_version.restype = ctypes.c_uint32
        version = library.kf_abi_version()
    except (OSError, AttributeError) as e:
        raise errors.EnvironmentFault(
            f"load the core `{path}`: {e}", hint="build it again: `make build`"
        ) from e
    if version != ABI_VERSION:
        raise errors.EnvironmentFault(
            f"load the core `{path}`: it has interface {version} (expected {ABI_VERSION})",
            hint="build core and package together: `make build`",
        )
    pointer = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64)
    library.kf_init.argtypes = [ctypes.c_char_p, ctypes.c_int64, *pointer]
    library.kf_init.restype = ctypes.c_int32
    library.kf_call.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, *pointer]
    library.kf_call.restype = ctypes.c_int32
    library.kf_free.argtypes = [ctypes.c_void_p]
    library.kf_free.restype = None
    body = json.dumps(_CONFIGURATION).encode()
    out, size = ctypes.c_void_p(), ctypes.c_int64()
    rc = library.kf_init(body, len(body), ctypes.byref(out), ctypes.byref(size))
    _answer(library, "init", rc, out, size)
    return library


def _answer(
    library: ctypes.CDLL, operation: str, rc: int, out: ctypes.c_void_p, size: ctypes.c_int64
) -> dict[str, Any]:
    text = b""
    if out.value:
        text = ctypes.string_at(out.value, size.value)
        library.kf_free(out)
    answer = json.loads(text) if text else {}
    if rc == 0:
        result = answer.get("result")
        return result if isinstance(result, dict) else {"value": result}
    error = answer.get("error") or {}
    raise errors.from_core(
        error.get("code", "internal"),
        error.get("text", f"{operation}: the core answered {rc}"),
        error.get("hint", ""),
    )
