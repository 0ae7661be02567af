"""Every hooked overload that CUDA has is captured, and served by a real kernel with eager's outputs: the tests of test_served.py."""

import pytest

from on_cuda import on_cuda

pytestmark = pytest.mark.usefixtures("cuda_default")

LEFT_OUT = {
    "test_every_overload_with_a_cpu_kernel_has_a_sample": "of the CPU; test_reach.py holds the union of both devices",
}
globals().update(on_cuda("test_served", LEFT_OUT))
