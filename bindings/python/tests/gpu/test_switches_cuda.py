"""What decides beside the call, on CUDA: the tests of test_switches.py."""

import pytest

from on_cuda import on_cuda

pytestmark = pytest.mark.usefixtures("cuda_default")

LEFT_OUT = {
    "test_thread_count_is_part_of_the_plan": "a plan for CUDA has no thread count",
    "test_a_served_call_costs_no_python_and_no_gil": "times a call by the host's clock; test_timing_cuda.py has host_cost",
    "test_workspaces_are_given_zeroed_and_apart": "its kernels are C++; test_device_cuda.py has them in CUDA",
    "test_attention_with_dropout_is_not_recorded": "the overload is of the CPU",
}
globals().update(on_cuda("test_switches", LEFT_OUT))
