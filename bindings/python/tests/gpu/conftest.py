"""Tests on a real GPU: every test of this folder has the mark `gpu` and is skipped, with the reason, where torch sees no device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import nvrtc
from on_cuda import need_gpu

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m gpu` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test leaves a device without pending work or errors: a fault is told by the test that made it."""
    need_gpu()
    torch.backends.cudnn.allow_tf32 = False  # eager's convolutions are compared in float32
    yield
    try:
        torch.cuda.synchronize()
    except RuntimeError as e:
        pytest.exit(
            f"{request.node.nodeid} lost the CUDA context, so no later test can run: {e}", returncode=1
        )


@pytest.fixture(scope="session")
def nvrtc_compile():
    """Return compile(source, arch, options=(), headers=None) -> cubin bytes (nvrtc.py)."""
    return nvrtc.compile


@pytest.fixture(scope="session")
def device_arch() -> str:
    """Return the architecture of device 0: `sm_90a` on an H200."""
    need_gpu()
    return nvrtc.arch_of(torch.cuda.get_device_capability(0))


@pytest.fixture
def cuda_default() -> Iterator[None]:
    """Tensors are made on CUDA unless a test says otherwise."""
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)
