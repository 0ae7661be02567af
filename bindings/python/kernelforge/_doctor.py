"""What works on this machine, in words, and what the reader can do about the rest. Each check is one function that tries the real thing.

A check never raises: what it finds is its answer. `need` says which of the uses (profile, optimize, apply) it is needed for.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from . import _core, _cxx, _doctor_cuda, _doctor_sandbox, _pins, _settings
from ._check import Check
from .errors import KernelForgeError

USES = ("apply", "profile", "optimize")
CUDA_USES = ("apply on cuda", "profile on cuda", "optimize on cuda")
_HINT = "\nhint: "
_FREE_WANTED = 1 << 30  # a study with its binaries stays far below this


def checks() -> Iterator[Check]:
    """Yield the checks one by one, so that a slow one does not hide the others."""
    for check in _CHECKS:
        try:
            found = check()
            if found is not None:  # None: a check of something that this machine does not have
                yield found
        except KernelForgeError as e:
            yield Check(_name(check), False, e.text, e.hint, USES)
        except Exception as e:  # the doctor must survive any patient
            yield Check(
                _name(check),
                False,
                f"{type(e).__name__}: {str(e).partition(_HINT)[0]}",
                str(e).partition(_HINT)[2] or "this check itself failed; please report it",
                USES if check not in _doctor_cuda.CHECKS else CUDA_USES,
            )


def _name(check: Callable[[], Check | None]) -> str:
    return check.__name__.strip("_").removesuffix("_check").replace("_", " ")


def summary(found: list[Check]) -> dict[str, Any]:
    """Return what can be used here: for each use whether it works and what is in its way."""
    uses = {use: [c.name for c in found if c.ok is False and use in c.need] for use in USES}
    if any(
        need in CUDA_USES for c in found for need in c.need
    ):  # a machine without a GPU is not told what it lacks for one
        for use in CUDA_USES:
            host = use.removesuffix(" on cuda")
            uses[use] = [
                c.name
                for c in found
                if c.ok is False and (use in c.need or (host in c.need and c.name != "compiler"))
            ]
    return {
        "schema": 1,
        "checks": [asdict(c) for c in found],
        "uses": {use: {"works": not missing, "missing": missing} for use, missing in uses.items()},
    }


# ---- the checks -------------------------------------------------------------------------------------------------


def _python() -> Check:
    v = sys.version_info
    return Check(
        "python",
        v >= (3, 11),
        f"{v.major}.{v.minor}.{v.micro}",
        "" if v >= (3, 11) else "use Python 3.11 or newer",
        USES,
    )


def _torch() -> Check:
    if importlib.util.find_spec("torch") is None:
        return Check(
            "torch", False, "not installed", "install torch 2.11 to 2.15, then build kernelforge for it", USES
        )
    import torch

    minor = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
    fits = (2, 11) <= minor <= (2, 15)
    return Check(
        "torch",
        fits or None,
        f"{torch.__version__}, {torch.get_num_threads()} threads",
        "" if fits else "tried with 2.11 to 2.15",
        USES,
    )


def _extension() -> Check:
    from . import _ext

    if _settings.read().disabled:
        return Check(
            "extension",
            None,
            "KERNELFORGE_DISABLE is set: eager runs everywhere",
            "unset it to serve plans",
            (),
        )
    _ext.load()
    hooks = _ext.hooks()
    found = f"{len(hooks['hooked'])} operators hooked"
    if hooks["refused"]:
        found += (
            f", {len(hooks['refused'])} refused ("
            + "; ".join(f"{r['overload']}: {r['why']}" for r in hooks["refused"][:3])
            + ")"
        )
    if hooks["missing"]:
        found += f", {len(hooks['missing'])} not in this torch"
    return Check("extension", True, found, "", USES)


def _core_library() -> Check:
    version = _core.call("version")
    return Check(
        "core", True, f"libkernelforge {version['version']}, interface {version['abi']}", "", ("optimize",)
    )


def _worker() -> Check:
    for path in (_core.WORKER, _core.RUNTIME):
        if not path.exists():
            return Check(
                "worker", False, f"`{path.name}` is not built", "build it: `make build`", ("optimize",)
            )
    if not os.access(_core.WORKER, os.X_OK):
        return Check(
            "worker",
            False,
            f"`{_core.WORKER}` cannot be executed",
            "chmod +x it, or leave the noexec mount",
            ("optimize",),
        )
    return Check("worker", True, "kernelforge-worker and libkfruntime.so are there", "", ("optimize",))


def _compiler() -> Check:
    compiler = _settings.compiler()
    if compiler is None:
        found, hint = _settings.no_compiler()
        return Check("compiler", False, found, hint, ("optimize",))
    wrong = _cxx.tried(compiler)
    if wrong is not None:
        return Check("compiler", False, *wrong, ("optimize",))
    return Check("compiler", True, _pins.toolchain(compiler) or compiler, "", ("optimize",))


def _cpu() -> Check:
    name, isa = _pins.cpu()
    cores = len(os.sched_getaffinity(0))
    good = isa in ("avx2", "avx512")
    return Check(
        "cpu",
        good or None,
        f"{name}, {isa}, {cores} cores",
        "" if good else "vector kernels need AVX2; expect less",
        (),
    )


def _store() -> Check:
    path = _settings.store_path(None)
    try:
        _settings.writable_folder(path.parent, "store")
        _settings.writable_folder(_settings.read().cache, "cache", _settings.elsewhere())
    except KernelForgeError as e:  # profiles and packs need neither
        return Check("store", False, e.text, e.hint, ("optimize",))
    free = _settings.free_bytes(path.parent)
    little = free is not None and free < _FREE_WANTED
    found = f"{path}, {free / 2**30:.1f} GiB free" if free is not None else str(path)
    return Check(
        "store", None if little else True, found, "a study needs up to 1 GiB" if little else "", ("optimize",)
    )


def _torchvision() -> Check:
    if importlib.util.find_spec("torchvision") is None:
        return Check(
            "torchvision",
            None,
            "not installed",
            "only built-in models and `kernelforge demo` need it: pip install torchvision",
            (),
        )
    return Check(
        "torchvision",
        True,
        f"{importlib.metadata.version('torchvision')}: built-in models and the demo work",
        "",
        (),
    )


_CHECKS = (
    _python,
    _torch,
    _extension,
    _core_library,
    _worker,
    _compiler,
    *_doctor_sandbox.checks(
        "sandbox tier", _doctor_sandbox.HOST, ("optimize",), lambda: _settings.compiler() is not None
    ),
    _cpu,
    _store,
    _torchvision,
    *_doctor_cuda.CHECKS,
)
