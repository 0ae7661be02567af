"""Only plain dense tensors are served on CUDA: the tests of test_keysets.py."""

import pytest

from on_cuda import on_cuda

pytestmark = pytest.mark.usefixtures("cuda_default")

globals().update(on_cuda("test_keysets", {}))
