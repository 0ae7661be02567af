"""kernelforge: makes a PyTorch model faster and never less right than eager itself.

    import kernelforge
    model = kernelforge.optimize(model, inputs)   # the same object; winners serve from here on
    print(kernelforge.report(model))

Importing loads neither torch nor the Go core nor the extension: each loads when a function first needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._optimize import optimize, report
    from ._pack import apply, approve, disabled, restore
    from ._profile import profile
    from ._stats import dump_stats, explain, stats
    from ._study import Study
    from ._verify import verify
    from .errors import KernelForgeError

__version__ = "0.1.0"
__all__ = [
    "KernelForgeError",
    "Study",
    "apply",
    "approve",
    "disabled",
    "dump_stats",
    "explain",
    "optimize",
    "profile",
    "report",
    "restore",
    "stats",
    "verify",
]

_HOME = {
    "KernelForgeError": "errors",
    "Study": "_study",
    "apply": "_pack",
    "approve": "_pack",
    "disabled": "_pack",
    "dump_stats": "_stats",
    "explain": "_stats",
    "optimize": "_optimize",
    "profile": "_profile",
    "report": "_optimize",
    "restore": "_pack",
    "stats": "_stats",
    "verify": "_verify",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module `kernelforge` has no `{name}`")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
