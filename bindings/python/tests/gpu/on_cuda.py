"""Runs a test module of the host again on CUDA: the same file, imported a second time while torch's default device is CUDA.

A module of this folder takes the tests of `test_modes.py` over with `globals().update(on_cuda("test_modes", LEFT_OUT))` and marks them with
`pytest.mark.usefixtures("cuda_default")`, so that tensors made inside a test are on CUDA as those made at import are. LEFT_OUT says for each test that
cannot hold there why, and each of those has its counterpart in this folder or is of the host alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import torch


def need_gpu(*, allow_module_level: bool = False) -> None:
    """Skip where there is no device; also for fixtures of a module, which are made before the folder's own check."""
    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no CUDA device", allow_module_level=allow_module_level)


def on_cuda(name: str, left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return the names of a module imported on CUDA, without its left-out tests. Skips the module that calls it where there is no device."""
    need_gpu(allow_module_level=True)
    original = sys.modules.pop(name, None)
    try:
        with torch.device("cuda"):
            module = importlib.import_module(name)
    finally:
        sys.modules.pop(name, None)
        if original is not None:
            sys.modules[name] = original
    names = {n: v for n, v in vars(module).items() if not n.startswith("__")}
    gone = sorted(set(left_out) - names.keys())
    assert not gone, f"{name}.py has no {gone}: nothing to leave out"
    return {n: v for n, v in names.items() if n not in left_out}
