"""The door to the torch extension `kernelforge._C`: imported at the first profile, optimize or apply, hooks installed once.

It owns the check that the extension was built and for the torch that is imported, and the switch that decides whether plans serve. It refuses
everything else: no search, no pack.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from . import _settings
from .errors import EnvironmentFault

_lock = threading.RLock()
# A child that is forked while another thread holds the lock would wait for a thread that it does not have: fork waits for the lock instead.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_measuring = threading.RLock()
_module: ModuleType | None = None
_installed: dict[str, Any] = {}
_off = 0  # blocks of `disabled` that are open


def load() -> Any:
    """Return `kernelforge._C` with its hooks installed.

    Raises:
        EnvironmentFault: no torch, extension not built, or built for another torch.
    """
    global _module, _installed
    with _lock:
        if _module is None:
            module = _import()
            if _off or _settings.read().disabled:
                module.set_enabled(False)
            _installed = dict(module.install())
            _module = module
        return _module


@contextlib.contextmanager
def measuring() -> Iterator[None]:
    """Let one thread at a time profile or search: capture, discovery and the table of plans are the process's, and two studies would see each other's calls."""
    lock = _measuring
    with lock:
        yield


def _after_fork_in_child() -> None:
    global _measuring
    _measuring = threading.RLock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


def loaded() -> Any | None:
    """Return the extension if this process has loaded it, else None; loads nothing."""
    return _module


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Keep plans from serving inside the block, in the whole process; blocks nest. An extension that loads inside the block begins switched off."""
    global _off
    with _lock:
        _off += 1
        if _module is not None:
            _module.set_enabled(False)
    try:
        yield
    finally:
        with _lock:
            _off -= 1
            if _module is not None and not _off and not _settings.read().disabled:
                _module.set_enabled(True)


@contextlib.contextmanager
def switch(extension: Any) -> Iterator[Callable[[bool], None]]:
    """Give the switch to a measurement that needs plans on and off, inside `disabled` too; afterwards it stands as it stood."""
    was = extension.enabled()
    try:
        yield extension.set_enabled
    finally:
        extension.set_enabled(was)


def hooks() -> dict[str, Any]:
    """Return what was hooked, refused and missing (`{"hooked", "refused", "missing"}`)."""
    load()
    return _installed


def _import() -> ModuleType:
    try:
        import torch
    except ImportError as e:
        raise EnvironmentFault(
            f"load the extension: torch cannot be imported ({e})",
            hint="install torch 2.11 or newer, then kernelforge-torch again",
        ) from e
    if not any(Path(__file__).parent.glob("_C.*so")):
        raise EnvironmentFault(
            "load the extension `kernelforge._C`: it is not built",
            hint="run `make build` in a checkout, or install with pip again",
        )
    try:
        module = importlib.import_module("kernelforge._C")
    except ImportError as e:
        raise EnvironmentFault(
            f"load the extension `kernelforge._C`: {e} (torch here is {torch.__version__})",
            hint="it was built for another torch or Python: build it again with `make build`, or install with pip again",
        ) from e
    built = str(module.build_info()["torch"])
    if built.split("+")[0] != torch.__version__.split("+")[0]:
        raise EnvironmentFault(
            f"load the extension `kernelforge._C`: it was built for torch {built} (this is {torch.__version__})",
            hint="build it again with `make build`, or install with pip again",
        )
    return module
