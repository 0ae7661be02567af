"""The rule on calls of every kind: types, ranks, broadcasts, overlaps, integers, vendor operators. Eager passes, exactly, and so does the rounded reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from calling import call_of
from kernelforge.errors import RefereeFault
from kernelforge.referee.bounds import compare
from kernelforge.referee.cases import Variant, bounds_of
from kernelforge.referee.reference import run_eager


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def mask(*sizes: int) -> torch.Tensor:
    return r(*sizes) < 0


def nhwc(*sizes: int) -> torch.Tensor:
    return r(*sizes).to(memory_format=torch.channels_last)


BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64
SLIDING = r(40).as_strided((6, 5), (3, 1))  # elements that overlap
COUNT = torch.arange(60).view(6, 10)
CALLS: list[tuple[str, list[Any]]] = [
    ("aten::masked_fill.Tensor", [r(4, 5), mask(4, 5), torch.tensor(3.0)]),
    ("aten::masked_fill.Scalar", [COUNT, mask(6, 10), 7]),
    ("aten::relu", [torch.tensor(2.0)]),
    ("aten::relu", [SLIDING]),
    ("aten::silu", [SLIDING]),
    ("aten::silu", [r(5, 1, 1).expand(5, 3, 4)]),
    ("aten::sigmoid", [torch.arange(5)]),
    ("aten::clamp", [r(5), None, 1.0]),
    ("aten::clamp", [COUNT, 1, 3]),
    ("aten::pow.Tensor_Scalar", [COUNT, 2]),
    ("aten::pow.Tensor_Scalar", [COUNT.int(), 2.5]),
    ("aten::add.Tensor", [r(4, 5), torch.arange(5), 1]),
    ("aten::add.Tensor", [torch.arange(6), 2, 3]),
    ("aten::div.Tensor", [torch.arange(20), torch.arange(1, 21)]),
    ("aten::where.self", [mask(4, 1), torch.tensor(1.0), r(4, 6)]),
    ("aten::copy_", [torch.zeros(6, 10), COUNT, False]),
    ("aten::cat", [[r(3, 2), r(3, 2).double(), torch.arange(6).view(3, 2)], 0]),
    ("aten::sum.dim_IntList", [COUNT, [1], False, None]),
    ("aten::sum.dim_IntList", [mask(6, 10), [1], False, None]),
    ("aten::sum.dim_IntList", [r(4), None, True, None]),
    ("aten::mean.dim", [r(6, 10).to(BF16), None, False, F32]),
    ("aten::amax", [r(3, 4, 5), [], False]),
    ("aten::amax", [COUNT, [0], True]),
    ("aten::cumsum_", [r(6, 8), 1, None]),
    ("aten::cumsum", [COUNT, 1, F32]),
    ("aten::_softmax", [SLIDING, 1, False]),
    ("aten::_softmax", [torch.tensor(1.0), 0, False]),
    (
        "aten::native_layer_norm.out",
        [r(6, 8), [8], None, None, 1e-5, torch.empty(6, 8), torch.empty(6, 1), torch.empty(6, 1)],
    ),
    ("aten::native_group_norm", [r(2, 6, 5), None, None, 2, 6, 5, 3, 1e-5]),
    ("aten::group_norm", [nhwc(2, 6, 5, 5), 3, None, None, 1e-5, True]),
    ("aten::native_group_norm", [nhwc(2, 6, 5, 5), None, None, 2, 6, 25, 3, 1e-5]),
    (
        "aten::native_batch_norm.out",
        [
            r(2, 3, 4, 4),
            None,
            None,
            r(3),
            r(3).abs() + 0.5,
            False,
            0.1,
            1e-5,
            torch.empty(2, 3, 4, 4),
            torch.empty(0),
            torch.empty(0),
        ],
    ),
    ("aten::upsample_bilinear2d", [nhwc(1, 3, 8, 8), [16, 16], False, 2.0, 2.0]),
    ("aten::_adaptive_avg_pool2d", [r(3, 7, 7), [1, 1]]),
    ("aten::max_pool2d_with_indices", [r(3, 7, 7), [2, 2], [], [0, 0], [1, 1], False]),
    ("aten::mm", [r(5, 6).to(BF16), r(6, 4).to(BF16)]),
    ("aten::addmm", [r(7), r(5, 6), r(6, 7), 1, -2]),
    ("aten::bmm", [r(3, 5, 6), r(3, 6, 4)]),
    ("aten::mkldnn_convolution", [r(2, 3, 9, 9), r(8, 3, 3, 3), r(8), [1, 1], [1, 1], [1, 1], 1]),
    ("aten::_slow_conv2d_forward", [r(2, 3, 9, 9), r(8, 3, 3, 3), [3, 3], r(8), [1, 1], [1, 1]]),
    (
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        [r(2, 3, 16, 8), r(2, 3, 16, 8), r(2, 3, 16, 8), 0.0, True, None, None],
    ),
]


@pytest.mark.parametrize("captured", [True, False], ids=["captured", "moments only"])
@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{i}-{n[6:]}" for i, (n, _) in enumerate(CALLS)])
def test_eager_and_the_rounded_reference_pass(name: str, arguments: list[Any], captured: bool) -> None:
    variant = Variant(call_of(name, arguments), arguments if captured else None, seed=3)
    kinds = set()
    for item in variant.inputs():
        drawn = variant.arguments(variant.draw(item.kind, item.number))
        bounds = bounds_of(variant.overload, drawn, item.kind)
        eager = compare(bounds, run_eager(variant.overload, drawn))
        assert (eager.status, eager.exact) == ("ok", True), (item, eager.detail)
        best = compare(bounds, [b.best for b in bounds])
        assert best.status == "ok", (item, best.detail)
        kinds.add(item.kind)
    assert "fresh" in kinds and ("captured" in kinds) == captured


def test_an_operator_without_a_rule_is_refused() -> None:
    x = r(4, 4)
    with pytest.raises(RefereeFault, match="no numeric rule"):
        Variant(call_of("aten::logsumexp", [x, [1], False]), [x, [1], False], seed=0)


def test_an_overload_that_torch_does_not_have_is_refused() -> None:
    with pytest.raises(RefereeFault, match="none of this name"):
        Variant({"overload": "aten::no_such", "args": [], "outputs": []}, [], seed=0)


def test_draws_keep_ranges_signs_zeros_and_strides() -> None:
    x = (torch.relu(r(40, 30)) * 3).t()
    variant = Variant(call_of("aten::silu", [x]), [x], seed=1)
    for number in range(2):
        drawn = variant.draw("fresh", number)[0]
        assert drawn.stride() == x.stride()
        assert float(drawn.min()) >= 0
        assert abs(float((drawn == 0).double().mean() - (x == 0).double().mean())) < 0.1
    low = variant.draw("fresh", 0)[0]
    assert float(low.max()) <= float(x.max())


def test_a_positive_variance_stays_positive() -> None:
    v = r(64).abs() + 0.5
    arguments = [r(2, 64, 5, 5), None, None, r(64), v, False, 0.1, 1e-5]
    variant = Variant(call_of("aten::native_batch_norm", arguments), arguments, seed=1)
    assert all(float(variant.draw(i.kind, i.number)[2].min()) > 0 for i in variant.inputs())
