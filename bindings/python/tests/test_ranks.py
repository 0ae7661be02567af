"""Values whose order is not specified, and gates that a test turns off: each lets pass what only it stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelforge.referee.bounds import compare
from kernelforge.referee.cases import bounds_of
from kernelforge.referee.controls import CONTROLS
from kernelforge.referee.metamorphic import KIND
from kernelforge.referee.reference import run_eager
from probing import BF16, Candidate, draw, passes, variant
from referee_worker import FakeProfile, Task, Worker

# ---- values that come with an unspecified order ---------------------------------------------------------------------------------------


def _ties(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 4, sizes, generator=torch.Generator().manual_seed(7)).float()


def _topk(order: Callable[[torch.Tensor], torch.Tensor], k: int, ordered: bool) -> Candidate:
    """Topk that prefers other elements among equal ones than eager does: `order` gives a permutation of a row's places."""

    def candidate(a: list[Any]) -> list[torch.Tensor]:
        x = a[0]
        places = order(torch.arange(x.shape[1])).expand_as(x)
        found = torch.sort(x.gather(1, places), stable=True, dim=1, descending=True)
        values, index = found.values[:, :k], places.gather(1, found.indices[:, :k])
        return [values, index] if ordered else [values.flip(1), index.flip(1)]

    return candidate


def test_any_of_equal_elements_may_be_taken() -> None:
    x = _ties(9, 40)
    for ordered in (True, False):
        v = variant("aten::topk", x, 8, 1, True, ordered)
        assert passes(v, lambda a, v=v: run_eager(v.overload, a))
        for order in (lambda i: i, lambda i: i.flip(0), lambda i: i.roll(11)):
            assert passes(v, _topk(order, 8, ordered)), ordered
    unsorted_where_sorted_is_asked = _topk(lambda i: i, 8, False)
    assert not passes(variant("aten::topk", x, 8, 1, True, True), unsorted_where_sorted_is_asked)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda v, i: (v, i.clone().fill_(3)), "twice in its row"),
        (lambda v, i: (v, i.roll(1, 1)), "another value than the one beside it"),
        (lambda v, i: (v, i + 40), "outside of its row of 40"),
        (lambda v, i: (v, -1 - i), "outside of its row of 40"),
        (lambda v, i: (v - 1, i), "T1 value by rank"),
        (lambda v, i: (v.float(), i.int()), "int32"),
        (lambda v, i: (v.roll(1, 0), i.roll(1, 0)), "T1 value by rank"),
    ],
    ids=["repeats", "swaps", "beyond", "negative", "values", "type", "rows"],
)
def test_nothing_but_equal_elements_may_be_taken(mistake: Callable[..., Any], words: str) -> None:
    v = variant("aten::topk", draw(9, 40), 8, 1, True, True)
    arguments = v.arguments(v.draw("captured", 0))
    values, index = run_eager(v.overload, arguments)
    found = compare(bounds_of(v.overload, arguments, "captured"), list(mistake(values, index)))
    assert found.status != "ok" and words in found.detail


def test_nan_counts_as_the_largest_and_a_stable_sort_leaves_nothing_open() -> None:
    x = _ties(5, 16)
    x[:, 3] = x[:, 9] = torch.nan
    v = variant("aten::topk", x, 4, 1, True, True)
    assert passes(v, lambda a: run_eager(v.overload, a))
    assert not passes(v, lambda a: list(torch.topk(a[0].nan_to_num(-9.0), 4, 1)))
    other = _topk(lambda i: i.flip(0), 16, True)
    assert passes(variant("aten::sort", _ties(5, 16), 1, True), other)
    assert not passes(variant("aten::sort.stable", _ties(5, 16), True, 1, True), other)


# ---- gates that a test turns off --------------------------------------------------------------------------------------------------------


def _judged(candidate: Callable[[Worker, Task, int], None], off: list[str]) -> Task:
    profile = FakeProfile("aten::relu", [draw(64, 40)])
    return Worker(profile, off=off).judge(candidate)


def _relu(worker: Worker, case: Task) -> None:
    worker.tensor(case, 1).copy_(worker.tensor(case, 0).relu())


def _changes_its_input(worker: Worker, case: Task, repeat: int) -> None:
    _relu(worker, case)
    x = worker.tensor(case, 0)
    x[x < 0] = -5.0  # which changes no output


def _leaves_the_first(worker: Worker, case: Task, repeat: int) -> None:
    kept = worker.tensor(case, 1)[0, 0].clone()
    _relu(worker, case)
    worker.tensor(case, 1)[0, 0] = kept


def _differs_later(worker: Worker, case: Task, repeat: int) -> None:
    _relu(worker, case)
    worker.tensor(case, 1)[0, 0] += repeat


def _adds_one(worker: Worker, case: Task, repeat: int) -> None:
    _relu(worker, case)
    worker.tensor(case, 1)[0, 0] += 1


@pytest.mark.parametrize(
    ("candidate", "gates", "words"),
    [
        (_changes_its_input, ["inputs"], "input `self` was changed, first at ["),
        (
            _leaves_the_first,
            ["poison", "values"],
            "1 of 2560 elements were not written, the first at [0, 0]",
        ),
        (
            _differs_later,
            ["repeats", "dirty"],
            "gave other bits than the first run on the same input, first at [0, 0]",
        ),
        (_adds_one, ["values"], "T1 bit for bit"),
    ],
    ids=["inputs", "poison", "repeats", "values"],
)
def test_a_gate_that_is_off_lets_pass_what_only_it_stops(
    candidate: Callable[[Worker, Task, int], None], gates: list[str], words: str
) -> None:
    told = _judged(candidate, [])
    assert told["status"] == "wrong_value" and words in told["detail"]
    assert _judged(candidate, gates)["status"] == "ok"
    for gate in gates:
        rest = [g for g in gates if g != gate]
        assert len(gates) == 1 or _judged(candidate, rest)["status"] == "wrong_value", gate


def test_cases_of_gates_that_are_off_are_not_made() -> None:
    def kinds(*off: str) -> set[str]:
        v = variant("aten::native_layer_norm", draw(48, 64), [64], None, None, 1e-5, off=off)
        return {i.kind for i in v.inputs()}

    assert kinds() == {"captured", "fresh", "special", "exact", KIND}
    assert kinds("special", "metamorphic") == {"captured", "fresh", "exact"}
    assert kinds("exact") == {"captured", "fresh", "special", KIND}
    all_inputs = variant("aten::silu", draw(64, 64, dtype=BF16))
    assert {i.kind for i in all_inputs.inputs()} == {
        "captured",
        "fresh",
        "exhaustive",
    }  # special values are among all of them


def test_all_inputs_names_every_control() -> None:
    assert list(CONTROLS) == [
        "zeros",
        "constant",
        "input copy",
        "previous output",
        "rows permuted",
        "last element dropped",
        "lower precision",
    ]
