"""Execution modes on CUDA: the tests of test_modes.py."""

import pytest

from on_cuda import on_cuda

pytestmark = pytest.mark.usefixtures("cuda_default")

LEFT_OUT = {
    "test_forked_loader_workers_are_served": "a forked worker has no CUDA; test_processes_cuda.py forks beside CUDA plans",
    "test_workers_forked_during_capture_observe_nothing_and_are_served": "the same",
}
globals().update(on_cuda("test_modes", LEFT_OUT))
