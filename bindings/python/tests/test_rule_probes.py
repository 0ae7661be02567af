"""The probes of the rule beside the comparison with a reference: all inputs (T2x), the cap (T4), negative controls (T5), relations (T7), ranks.

Each is shown to fail on the mistake that it is there for, to pass what is right, and to be silent when its gate is off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelforge.referee import exhaustive
from kernelforge.referee.bounds import Bound, Finding
from kernelforge.referee.cases import Variant, bounds_of
from kernelforge.referee.controls import EQUAL, FAILS, PASSES, Case, cut, tried
from kernelforge.referee.groups import Rows
from kernelforge.referee.metamorphic import KIND, ROWS, SHIFTED, UNSHIFTED
from kernelforge.referee.reference import run_eager
from kernelforge.referee.rule import CAP, CAP_DEFAULTS, EXHAUSTIVE_CALLS, EXHAUSTIVE_STRIDE
from probing import BF16, F16, F32, F64, Candidate, draw, findings, passes, variant
from referee_worker import FakeProfile, Worker

# ---- T2x ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("sizes", [(256, 256), (300, 299), (200, 200), (7, 9)])
def test_every_input_of_a_16_bit_type_is_seen_once_and_more_by_enough_cases(
    dtype: torch.dtype, sizes: tuple[int, int]
) -> None:
    v = variant("aten::silu", draw(*sizes, dtype=dtype))
    slot = exhaustive.unary(v)
    assert slot is not None
    seen = torch.cat(
        [
            exhaustive.patterns(slot, n, 3, "cpu").reshape(-1).view(torch.int16)
            for n in range(exhaustive.cases_of(slot))
        ]
    )
    assert len(seen.unique()) == 1 << 16


def _wrong_at(bits: int) -> Candidate:
    """Silu but for one input of bfloat16."""

    def candidate(arguments: list[Any]) -> list[torch.Tensor]:
        x = arguments[0]
        return [torch.where(x.view(torch.int16) == bits, 1.0, torch.nn.functional.silu(x)).to(x.dtype)]

    return candidate


def test_one_wrong_value_among_65536_is_found_and_by_this_gate_alone() -> None:
    x = draw(256, 256, dtype=BF16)
    bad = _wrong_at(0x5A17)  # 1.06e16: no draw comes near it
    told = [f.detail for f in findings(variant("aten::silu", x), bad) if f.status != "ok"]
    assert len(told) == 1 and "1 of 65536 elements" in told[0] and "T2 element" in told[0]
    assert passes(variant("aten::silu", x, off=("exhaustive",)), bad)
    assert passes(variant("aten::silu", x), lambda a: [torch.nn.functional.silu(a[0])])


def test_calls_with_two_tensors_rows_or_wide_types_are_not_swept() -> None:
    x = draw(8, 8)
    for overload, *payload in (
        ("aten::add.Tensor", x, x, 1),
        ("aten::_softmax", x, 1, False),
        ("aten::exp", x.double()),
        ("aten::mul.Tensor", x, draw(8, 1)),
        ("aten::relu", x.int()),
    ):
        assert exhaustive.unary(variant(overload, *payload)) is None, overload
    for overload, *payload in (
        ("aten::relu_", x),
        ("aten::relu.out", x, x),
        ("aten::mul.Tensor", x, 2.5),
        ("aten::exp", x.half()),
    ):
        assert exhaustive.unary(variant(overload, *payload)) is not None, overload


def test_a_sweep_of_float32_takes_every_stride_and_tells_where() -> None:
    v = variant("aten::tanh", draw(61, 1001))
    right = exhaustive.sweep(v, lambda a: [torch.tanh(a[0])])
    assert right is not None and right.finding.status == "ok" and right.finding.exact
    assert right.of == 1 << 32
    assert abs(right.inputs - (1 << 32) / EXHAUSTIVE_STRIDE) <= 1

    def far_away(a: list[Any]) -> list[torch.Tensor]:  # wrong for half a binade of large numbers
        return [torch.where((a[0] > 1.2e20) & (a[0] < 1.4e20), 0.75, torch.tanh(a[0]))]

    wrong = exhaustive.sweep(v, far_away)
    assert wrong is not None and wrong.finding.status == "wrong_value"
    assert "T2x among the inputs from 0x" in wrong.finding.detail and "expected 1 +-" in wrong.finding.detail
    assert passes(v, far_away)  # no other case comes there


def test_a_small_tensor_of_16_bits_is_swept_whole_and_a_large_one_was_seen_whole() -> None:
    small, large = variant("aten::exp", draw(11, dtype=F16)), variant("aten::exp", draw(256, 256, dtype=F16))
    seen: set[int] = set()

    def exp(a: list[Any]) -> list[torch.Tensor]:
        seen.update(a[0].reshape(-1).view(torch.int16).tolist())
        return [a[0].exp()]

    swept = exhaustive.sweep(small, exp)
    assert swept is not None and (swept.inputs, swept.of, len(seen)) == (1 << 16, 1 << 16, 1 << 16)
    assert exhaustive.sweep(large, exp) is None


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 40, 1)])
def test_a_small_tensor_of_float32_is_swept_in_so_many_calls_over_every_binade(
    sizes: tuple[int, ...],
) -> None:
    v, calls, binades = variant("aten::tanh", draw(*sizes)), 0, set[int]()

    def tanh(a: list[Any]) -> list[torch.Tensor]:
        nonlocal calls
        calls += 1
        binades.update((a[0].reshape(-1).view(torch.int32) >> 23).tolist())
        return [torch.tanh(a[0])]

    swept = exhaustive.sweep(v, tanh)
    assert swept is not None and swept.finding.status == "ok" and swept.finding.exact
    # A group that is filled up from the beginning costs some more than what is counted.
    assert calls <= EXHAUSTIVE_CALLS + 128 and len(binades) == 1 << 9
    assert (
        0.8 * EXHAUSTIVE_CALLS < swept.inputs / math.prod(sizes) <= EXHAUSTIVE_CALLS and swept.of == 1 << 32
    )

    def far_away(a: list[Any]) -> list[torch.Tensor]:  # wrong for half a binade of large numbers
        return [torch.where((a[0] > 1.2e20) & (a[0] < 1.4e20), 0.75, torch.tanh(a[0]))]

    wrong = exhaustive.sweep(v, far_away)
    assert wrong is not None and wrong.finding.status == "wrong_value"


@pytest.mark.parametrize(("sizes", "whole"), [((1 << 17,), True), ((1 << 16,), False)])
def test_on_a_device_all_of_float32_is_for_tensors_that_hold_it_in_few_calls(
    sizes: tuple[int], whole: bool
) -> None:
    slot = exhaustive.unary(variant("aten::tanh", draw(*sizes)))
    assert slot is not None
    stride, group = exhaustive._strides(slot, "cuda")
    assert stride == (1 if whole else 2) and group == 1 << 20


# ---- T4 -----------------------------------------------------------------------------------------------------------------------------


def _capped(off: tuple[str, ...] = (), error: float = 1e-3) -> Bound:
    """A sum over 64 elements near 1 where eager is wrong by 1e-3 in places, far above the cap of 2e-4."""
    wide = 1 + 0.1 * draw(8, 64, dtype=F64)
    eager = (wide + error * torch.sign(draw(8, 64, seed=2, dtype=F64))).float()
    return Bound("output 0", "bounded", eager, wide, wide.abs(), Rows((8, 64), (1,)), off=off)


def test_twice_eagers_error_is_not_granted_above_the_cap() -> None:
    rtol, atol = CAP_DEFAULTS[F32]
    assert CAP * (atol + rtol) < 1e-3
    worse = (1 + 0.1 * draw(8, 64, dtype=F64) + 1.5e-3).float()
    found = _capped().compare(worse)
    assert found.status == "wrong_value" and "T4 cap" in found.detail and "+-" in found.detail
    assert _capped(off=("cap",)).compare(worse).status == "ok"  # by T2 alone
    as_good = (1 + 0.1 * draw(8, 64, dtype=F64) + 1.0e-3).float()
    assert _capped().compare(as_good).status == "ok"
    small = _capped(error=1e-6)  # below the cap T2 speaks alone
    assert small.compare((1 + 0.1 * draw(8, 64, dtype=F64) + 1.5e-6).float()).status == "ok"


# ---- T5 -----------------------------------------------------------------------------------------------------------------------------

CALLS = [
    ("aten::relu", draw(24, 40)),
    ("aten::silu", draw(24, 40, dtype=BF16)),
    ("aten::_softmax", draw(24, 40), 1, False),
    ("aten::native_layer_norm", draw(24, 40), [40], draw(40), draw(40, seed=4), 1e-5),
    ("aten::max_pool2d_with_indices", draw(2, 3, 12, 12), [2, 2], [2, 2], [0, 0], [1, 1], False),
    ("aten::mean.dim", draw(24, 4096), [0, 1], False, None),
    ("aten::sum.dim_IntList", draw(100000), [0], False, None),
    ("aten::add.Tensor", draw(24, 40), draw(24, 40, seed=2), 1),
    ("aten::cat", [draw(24, 40), draw(24, 8, seed=2)], 1),
    ("aten::topk", draw(24, 40), 5, -1, True, True),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda c: c[0].removeprefix("aten::"))
def test_every_control_fails_on_the_inputs_of_a_card(call: tuple[Any, ...]) -> None:
    worker = Worker(FakeProfile(call[0], list(call[1:])))
    ends = worker.prepared["controls"]["v0"]
    assert set(ends) >= {"zeros", "constant", "previous output", "last element dropped", "lower precision"}
    assert set(ends.values()) == {FAILS}, ends


def test_a_control_that_is_right_on_every_input_is_told_as_equal() -> None:
    identity = Worker(FakeProfile("aten::cat", [[draw(6, 8)], 0])).prepared["controls"]["v0"]
    assert identity["input copy"] == EQUAL and identity["zeros"] == FAILS
    flat = Worker(FakeProfile("aten::clamp", [draw(6, 8), 1.0, 1.0])).prepared["controls"]["v0"]
    assert flat["constant"] == flat["zeros"] == FAILS  # where a NaN stands it stays, which a constant is not


def _case(v: Variant, x: torch.Tensor, off: tuple[str, ...] = ()) -> Case:
    arguments = v.arguments([x])
    return Case(v.overload, arguments, bounds_of(v.overload, arguments, "fresh", off), [])


def test_inputs_that_do_not_discriminate_let_a_control_pass() -> None:
    """Whole numbers are the same in every precision: a sum of 4,096 ones cannot tell float32 from TF32."""
    v = variant("aten::sum.dim_IntList", torch.ones(4, 1024), [1], False, None)
    assert tried([_case(v, torch.ones(4, 1024))])["lower precision"] == EQUAL
    huge = variant("aten::exp", draw(4, 64))
    blind = tried([_case(huge, draw(4, 64), off=("values", "cap"))])  # a rule that lets everything pass
    assert {blind[name] for name in ("zeros", "constant", "input copy", "rows permuted")} == {PASSES}


def test_harder_inputs_are_added_where_the_first_ones_let_a_control_pass() -> None:
    """A relu of positive data is an identity on it; without special values and all inputs, only a draw of another kind tells."""
    ones = torch.ones(4, 1024)
    v = variant("aten::sum.dim_IntList", ones, [1], False, None, off=("special", "exact"))
    items = [i for i in v.inputs() if i.kind == "captured"]

    def refer_to(item: Any) -> Any:
        tensors = v.draw(item.kind, item.number)
        return tensors, bounds_of(v.overload, v.arguments(tensors), item.kind, v.off)

    ends, harder = v.controls(items, refer_to)
    assert ends["lower precision"] == FAILS and harder
    before = len(v.inputs())
    v.harder = harder
    assert len(v.inputs()) == before + len(harder)


def test_the_next_lower_precision_keeps_the_range() -> None:
    x = torch.tensor([1e38, 1 + 2**-9, 1 + 2**-11, -3e-40, torch.inf, torch.nan])
    assert cut(x)[1] == x[1] and cut(x)[2] == 1.0
    assert torch.equal(cut(x).isfinite(), x.isfinite()) and abs(float(cut(x)[0]) / 1e38 - 1) < 2**-11
    for dtype in (F16, BF16, F64):
        y = draw(1000, dtype=dtype)
        assert not torch.equal(cut(y), y) and torch.equal(cut(cut(y)), cut(y))


# ---- T7 -----------------------------------------------------------------------------------------------------------------------------


def test_a_leak_from_row_to_row_within_the_tolerance_is_found_by_the_rows_probe_alone() -> None:
    x = draw(64, 64, dtype=F64).float()

    def leaks(a: list[Any]) -> list[torch.Tensor]:
        out = torch.softmax(a[0], 1)
        up = torch.nextafter(out, torch.ones(()))
        odd = torch.arange(len(out))[:, None] % 2 == 1  # every other row is one step too large
        return [torch.where(odd, up, out)]

    told = [f.detail for f in findings(variant("aten::_softmax", x, 1, False), leaks) if f.status != "ok"]
    assert told and all("T7 rows" in t and "expected" in t for t in told)
    assert passes(variant("aten::_softmax", x, 1, False, off=("metamorphic",)), leaks)


@pytest.mark.parametrize(
    "call",
    [
        ("aten::_softmax", draw(48, 331), 1, False),
        ("aten::_softmax", draw(48, 331, dtype=BF16), 1, False),
        ("aten::_log_softmax", draw(48, 331), 1, False),
        ("aten::native_layer_norm", draw(48, 331), [331], 1 + 0.3 * draw(331), draw(331, seed=4), 1e-5),
        (
            "aten::native_group_norm",
            draw(4, 16, 8, 8),
            1 + 0.1 * draw(16),
            draw(16, seed=4),
            4,
            16,
            64,
            4,
            1e-5,
        ),
        ("aten::group_norm", draw(4, 16, 8, 8), 4, 1 + 0.1 * draw(16), draw(16, seed=4), 1e-5, True),
        ("aten::_fused_rms_norm", draw(48, 64), [64], 1 + 0.3 * draw(64), 1e-6),
        ("aten::max_pool2d_with_indices", draw(2, 6, 24, 16), [3, 3], [2, 2], [1, 1], [1, 1], False),
        ("aten::amax", draw(48, 331), [1], False),
        ("aten::mean.dim", draw(48, 331), [1], False, None),
        ("aten::cumsum", draw(48, 331), 1, None),
        ("aten::avg_pool2d", draw(2, 6, 24, 16), [2, 2], [2, 2], [0, 0], False, True, None),
        ("aten::topk", draw(48, 332), 7, 1, True, False),
    ],
    ids=lambda c: f"{c[0].removeprefix('aten::')}-{str(c[1].dtype)[6:]}",
)
def test_eager_and_the_rounded_reference_keep_every_relation(call: tuple[Any, ...]) -> None:
    v = variant(*call)
    assert v.probes is not None and v.probes.numbers
    assert [i for i in v.inputs() if i.kind == KIND and not i.final] == []
    assert passes(v, lambda a: run_eager(v.overload, a))
    assert passes(v, lambda a: [b.best for b in bounds_of(v.overload, a, "fresh")])


def _relation(v: Variant, candidate: Candidate, number: int) -> Finding:
    """Return what the relation alone says, whatever the reference says."""
    kept = {}
    for kind, n in (("captured", 0), (KIND, UNSHIFTED), (KIND, number)):
        if (kind, n) == (KIND, UNSHIFTED) and UNSHIFTED not in v.probes.numbers:  # type: ignore[union-attr]
            continue
        arguments = v.arguments(v.draw(kind, n))
        kept[kind, n] = (arguments, candidate(arguments), bounds_of(v.overload, arguments, kind))
    base = kept[("captured", 0) if number == ROWS else (KIND, UNSHIFTED)]
    arguments, outs, bounds = kept[KIND, number]
    named = dict(zip(v.overload.names, arguments, strict=True))
    assert v.probes is not None
    return v.probes.check(number, named, outs, bounds, base[1], base[2])


@pytest.mark.parametrize(
    ("call", "mistake", "words"),
    [
        (("aten::_softmax", draw(48, 331), 1, False), lambda o: [o[0] * (1 + 1e-5)], "a row sums to 1"),
        (
            ("aten::native_layer_norm", draw(48, 331), [331], None, None, 1e-5),
            lambda o: [o[0] + 1e-5, *o[1:]],
            "the mean is 0",
        ),
        (
            ("aten::native_layer_norm", draw(48, 331), [331], 1 + 0.1 * draw(331), draw(331, seed=4), 1e-5),
            lambda o: [o[0] * 1.001, *o[1:]],
            "the mean of squares",
        ),
        (
            ("aten::_fused_rms_norm", draw(48, 64), [64], 1 + 0.1 * draw(64), 1e-6),
            lambda o: [o[0] * 1.001, o[1]],
            "the mean of squares",
        ),
        (
            ("aten::max_pool2d_with_indices", draw(2, 6, 24, 16), [2, 2], [2, 2], [0, 0], [1, 1], False),
            lambda o: [o[0], o[1] ^ 1],
            "the element that its index names",
        ),
        (("aten::amax", draw(48, 331), [1], False), lambda o: [o[0] + 1], "one of its row"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_an_invariant_needs_no_reference(
    call: tuple[Any, ...], mistake: Callable[[list[torch.Tensor]], list[torch.Tensor]], words: str
) -> None:
    v = variant(*call)
    found = _relation(v, lambda a: mistake(run_eager(v.overload, a)), ROWS)
    assert found.status == "wrong_value" and words in found.detail and "at [" in found.detail


def test_a_softmax_without_the_maximum_moves_when_its_rows_are_shifted() -> None:
    v = variant("aten::_softmax", draw(48, 331), 1, False)

    def naive(a: list[Any]) -> list[torch.Tensor]:
        e = a[0].half().exp().float()  # exp(24) is beyond float16
        return [e / e.sum(1, keepdim=True)]

    assert "T7 shift" in _relation(v, naive, SHIFTED).detail
    assert _relation(v, lambda a: run_eager(v.overload, a), SHIFTED).status == "ok"
