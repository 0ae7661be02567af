"""Sums of half types with few outputs: statistics say nothing there, integers that cancel tell a sum in the half type from one in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelforge.referee.bounds import compare
from kernelforge.referee.cases import CANCELLING, bounds_of
from probing import variant

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
Sum = Callable[[torch.Tensor], torch.Tensor]


def _tree(rows: torch.Tensor) -> torch.Tensor:
    """Add up neighbours in the rows' own type, rounded at each level."""
    while rows.shape[1] > 1:
        odd = rows[:, rows.shape[1] // 2 * 2 :]
        rows = torch.cat([rows[:, 0 : rows.shape[1] - odd.shape[1] : 2] + rows[:, 1::2], odd], 1)
    return rows[:, 0]


def _in_order(rows: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(rows[:, 0])
    for column in rows.unbind(1):
        total = total + column
    return total


def _kahan(rows: torch.Tensor) -> torch.Tensor:
    total, lost = torch.zeros_like(rows[:, 0]), torch.zeros_like(rows[:, 0])
    for column in rows.unbind(1):
        more = column - lost
        larger = total + more
        total, lost = larger, (larger - total) - more
    return total


def _lanes(rows: torch.Tensor) -> torch.Tensor:
    """Keep 32 running sums, as a warp does, then add these up."""
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[1] % 32)).reshape(len(rows), -1, 32)
    return _tree(torch.stack([_in_order(lane) for lane in padded.unbind(2)], 1))


SUMS: dict[str, Sum] = {"tree": _tree, "in order": _in_order, "kahan": _kahan, "lanes": _lanes}


def _call(name: str, rows: int, columns: int, dtype: torch.dtype, offset: float) -> tuple[str, list[Any]]:
    x = torch.randn(rows, columns) + offset
    if name == "_adaptive_avg_pool2d":
        side = int(columns**0.5)
        return f"aten::{name}", [x[:, : side * side].reshape(1, rows, side, side).to(dtype), [1, 1]]
    overload = {"sum": "aten::sum.dim_IntList", "mean": "aten::mean.dim"}[name]
    return overload, [x.to(dtype), [1], False, None]


def _ends(overload: str, arguments: list[Any], give: Sum, seed: int) -> dict[tuple[str, int], str]:
    """Return how an algorithm for sums of rows ends on each input but the special ones (Kahan's makes NaN of infinities): the gate that it fails, or ""."""
    v = variant(overload, *arguments, seed=seed)
    found = {}
    for kind, number in dict.fromkeys(
        (i.kind, i.number) for i in v.inputs() if not i.final and i.kind != "special"
    ):
        called = v.arguments(v.draw(kind, number))
        bounds = bounds_of(v.overload, called, kind)
        rows = called[0].reshape(-1, called[0].shape[-1] if called[0].dim() == 2 else called[0][0, 0].numel())
        out = give(rows).reshape(bounds[0].eager.shape).to(bounds[0].eager.dtype)
        found[kind, number] = compare(bounds, [out]).gate
    return found


CALLS = [
    ("sum", 1, 517, BF16, 0.5),
    ("sum", 4, 100, F16, 0.0),
    ("mean", 1, 81, BF16, 1.0),
    ("mean", 8, 131, BF16, 1.0),
    ("mean", 3, 128, F16, 0.0),
    ("_adaptive_avg_pool2d", 2, 49, BF16, 1.0),
]


def _wide(add: Sum, divisor: int) -> list[Sum]:
    return [lambda rows: add(rows.float()) / divisor, lambda rows: add(rows.float() * (1.0 / divisor))]


def _narrow(add: Sum, divisor: int) -> Sum:
    return lambda rows: (add(rows).float() / divisor).to(rows.dtype)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_sum_in_the_half_type_fails_and_one_in_float32_passes_in_any_order(call: Any) -> None:
    for seed in range(2):
        torch.manual_seed(seed)
        overload, arguments = _call(*call)
        divisor = 1 if call[0] == "sum" else arguments[0].numel() // call[1]
        for name, add in SUMS.items():
            for give in _wide(add, divisor):
                assert set(_ends(overload, arguments, give, seed).values()) == {""}, (name, seed)
            if name != "kahan":  # compensation makes up for much of the type
                ends = _ends(overload, arguments, _narrow(add, divisor), seed)
                seen = [
                    gate for (kind, number), gate in ends.items() if kind == "exact" and number >= CANCELLING
                ]
                assert len(seen) == (3 if call[1] < 8 else 1) and "exact" in seen, (name, seed)


def test_rows_that_are_short_or_too_long_to_be_exact_have_no_such_input() -> None:
    def kinds(dtype: torch.dtype, *sizes: int) -> set[tuple[str, int]]:
        v = variant("aten::sum.dim_IntList", torch.zeros(*sizes, dtype=dtype), [-1], False, None)
        return {(i.kind, i.number) for i in v.inputs()}

    assert ("exact", CANCELLING) in kinds(BF16, 2, 16)
    assert ("exact", CANCELLING) not in kinds(BF16, 2, 15)
    assert ("exact", CANCELLING) not in kinds(F32, 2, 64)
    assert ("exact", CANCELLING) in kinds(F16, 1, 1 << 19)
    assert ("exact", CANCELLING) not in kinds(F16, 1, 1 << 21)


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("mean", [True, False])
def test_cancelling_rows_add_up_to_little_and_need_more_bits_on_the_way(
    dtype: torch.dtype, mean: bool
) -> None:
    name = "aten::mean.dim" if mean else "aten::sum.dim_IntList"
    v = variant(name, torch.randn(5, 7, 33).to(dtype), [0, 2], False, None)
    x = v.draw("exact", CANCELLING)[0].double()
    total = x.sum((0, 2)) / (x.shape[0] * x.shape[2] if mean else 1)
    assert bool(((total.abs() >= 1) & (total.abs() <= (1 if mean else 7)) & (total == total.round())).all())
    assert float(x.abs().max()) <= {BF16: 256, F16: 2048}[dtype]
    assert float(x.transpose(0, 1).reshape(7, -1).cumsum(1).abs().max()) > {BF16: 256, F16: 2048}[dtype]
