"""References of half types kept in float32, as on a device: the same candidates pass and fail as with float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from calling import call_of
from kernelforge.referee.bounds import Bound, compare
from kernelforge.referee.cases import Variant, bounds_of
from kernelforge.referee.rule import UNIT

CALLS = {
    "softmax": ("aten::_softmax", lambda x: [x, -1, False]),
    "silu": ("aten::silu", lambda x: [x]),
    "mean": ("aten::mean.dim", lambda x: [x, [-1], False, None]),
}


def _softmax(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    e = (x.to(dtype) - x.to(dtype).amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True, dtype=dtype)


def _mean(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    total = torch.zeros(x.shape[:-1], dtype=dtype)
    for part in x.to(dtype).split(1, -1):  # one after the other, each sum rounded
        total = total + part.squeeze(-1)
    return total / x.shape[-1]


COMPUTED: dict[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "softmax": _softmax,
    "silu": lambda x, dtype: x.to(dtype) / (1 + (-x.to(dtype)).exp()),
    "mean": _mean,
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_reference_in_float32_decides_as_one_in_float64(name: str, dtype: torch.dtype) -> None:
    function, arguments = CALLS[name]
    x = torch.randn(32, 300, generator=torch.Generator().manual_seed(2)).to(dtype)
    variant = Variant(call_of(function, arguments(x)), arguments(x), seed=5)
    seen, narrowed = set(), 0
    for item in variant.inputs():
        tensors = variant.draw(item.kind, item.number)
        made = variant.arguments(tensors)
        wide, narrow = (bounds_of(variant.overload, made, item.kind) for _ in range(2))
        for b in narrow:
            b._narrow()
            narrowed += b._wide.dtype is torch.float32
        right = COMPUTED[name](tensors[0], torch.float32)
        candidates = {
            "float64": COMPUTED[name](tensors[0], torch.float64),
            "float32": right,
            "the half type": COMPUTED[name](tensors[0], dtype),
            "off": right * (1 + 8 * UNIT[dtype]),
        }
        for computed, values in candidates.items():
            out = values.to(dtype)
            a, b = compare(wide, [out]), compare(narrow, [out])
            assert (a.status, a.detail.partition(": ")[2].split(":")[0]) == (
                b.status,
                b.detail.partition(": ")[2].split(":")[0],
            ), f"{item}: {computed}: {a} / {b}"
            assert b.worst == pytest.approx(a.worst, rel=1e-2, abs=1e-3)
            seen.add((computed, a.status))
    assert narrowed > 0
    assert seen >= {("float64", "ok"), ("float32", "ok"), ("off", "wrong_value")}, seen


def test_large_values_keep_their_reference_in_float64() -> None:
    x = torch.tensor([[1e30, 1.0, 2.0, 3.0]] * 64, dtype=torch.bfloat16)
    (bound,) = bounds_of(Variant(call_of("aten::silu", [x]), [x], 1).overload, [x], "captured")
    assert isinstance(bound, Bound)
    bound._narrow()
    assert bound._wide.dtype is torch.float64
