"""The probes of the rule on a device: all of float32 in seconds, controls and relations without leaving the GPU."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from calling import call_of
from kernelforge._place import place_of
from kernelforge.referee import exhaustive
from kernelforge.referee.cases import Variant
from on_cuda import need_gpu

pytestmark = pytest.mark.gpu
need_gpu(allow_module_level=True)
DEVICE = "cuda:0"
SECONDS = 30.0  # of all 2^32 inputs; a few are usual


def _variant(overload: str, *payload: Any) -> Variant:
    place = place_of(torch.device(DEVICE))
    return Variant(call_of(overload, list(payload)), list(payload), 3, place)


@pytest.mark.parametrize(
    ("overload", "function"), [("aten::relu", torch.relu), ("aten::silu", torch.nn.functional.silu)]
)
def test_every_float32_is_compared(overload: str, function: Any) -> None:
    v = _variant(overload, torch.randn(1 << 22, device=DEVICE))
    began = time.monotonic()
    right = exhaustive.sweep(v, lambda a: [function(a[0])])
    assert right is not None and (right.finding.status, right.inputs, right.of) == ("ok", 1 << 32, 1 << 32)
    assert time.monotonic() - began < SECONDS

    def one_wrong(a: list[Any]) -> list[torch.Tensor]:
        return [torch.where(a[0].view(torch.int32) == 0x7E123457, 1.0, function(a[0]))]

    wrong = exhaustive.sweep(v, one_wrong)
    assert (
        wrong is not None
        and wrong.finding.status == "wrong_value"
        and "1 of 16777216 elements" in wrong.finding.detail
    )
