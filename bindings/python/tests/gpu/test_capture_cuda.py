"""Capture on CUDA: the tests of test_capture.py."""

import pytest

from on_cuda import on_cuda

pytestmark = pytest.mark.usefixtures("cuda_default")

LEFT_OUT = {
    "test_outermost_hooked_call_owns_the_record": "mean has other parts on CUDA; test_device_cuda.py has relu's",
    "test_composite_is_captured_as_such_under_inference_mode": "_fused_rms_norm has a kernel on CUDA, so it arrives in every mode",
}
globals().update(on_cuda("test_capture", LEFT_OUT))
