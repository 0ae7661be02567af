"""Guards of random calls on CUDA: the test of test_guard_property.py."""

import pytest

from on_cuda import on_cuda

pytestmark = pytest.mark.usefixtures("cuda_default")

pytest.importorskip("hypothesis")
globals().update(on_cuda("test_guard_property", {}))
