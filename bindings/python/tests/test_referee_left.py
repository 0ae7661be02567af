"""What a run finds of the runs before: outputs that are right already but for a part, and an input that is the first one but for an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelforge.referee.calls import overload
from kernelforge.referee.stale import PARTS
from referee_worker import FakeProfile, Task, Worker, eager, relu_card

BF16, F16 = torch.bfloat16, torch.float16

CALLS: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "mean of rows in bfloat16": (
        "aten::mean.dim",
        lambda: [torch.randn(65, 1027).to(BF16) + 1, [1], False, None],
    ),
    "sum of many": ("aten::sum.dim_IntList", lambda: [torch.randn(100_003), [], False, None]),
    "sum of columns in float16": (
        "aten::sum.dim_IntList",
        lambda: [torch.randn(1025, 67).to(F16), [0], False, None],
    ),
    "maxima": ("aten::amax", lambda: [torch.randn(65, 300), [1], False]),
    "softmax": ("aten::_softmax", lambda: [torch.randn(33, 257), -1, False]),
    "windows": (
        "aten::max_pool2d_with_indices",
        lambda: [torch.randn(2, 3, 19, 19), [3, 3], [2, 2], [1, 1], [1, 1], False],
    ),
    "a norm": (
        "aten::native_layer_norm",
        lambda: [torch.randn(33, 129), [129], torch.randn(129), torch.randn(129), 1e-5],
    ),
    "integers": (
        "aten::add.Tensor",
        lambda: [torch.randint(-(2**62), 2**62, (33, 65)), torch.randint(0, 9, (33, 65)), 1],
    ),
    "a choice": (
        "aten::where.self",
        lambda: [torch.rand(33, 65) < 0.5, torch.randn(33, 65), torch.randn(65)],
    ),
    "a view of stride 0": (
        "aten::mul.Tensor",
        lambda: [torch.randn(33, 65), torch.randn(33, 1).expand(33, 65)],
    ),
    "another type": ("aten::copy_", lambda: [torch.zeros(33, 65, dtype=BF16), torch.randn(33, 65), False]),
    "in place": ("aten::relu_", lambda: [torch.randn(33, 65)]),
}


def _inputs(worker: Worker, case: Task) -> list[torch.Tensor]:
    """Return copies of the inputs that a call reads, each shared element once."""
    count = sum(a["kind"] == "tensor" for a in worker.call["args"])
    views = [worker.tensor(case, i) for i in range(count)]
    narrow = [v[tuple(slice(0, 1 if s == 0 else None) for s in v.stride())].clone() for v in views]
    names = [a["name"] for a in worker.call["args"] if a["kind"] == "tensor"]
    overwritten = overload(worker.call["overload"]).overwritten
    return [v for v, n in zip(narrow, names, strict=True) if n not in overwritten]


def _outputs(worker: Worker, case: Task) -> list[torch.Tensor]:
    first = sum(a["kind"] == "tensor" for a in worker.call["args"])
    return [worker.tensor(case, first + i) for i in range(len(worker.call["outputs"]))]


def _run(worker: Worker, case: Task, payload: list[Any]) -> list[torch.Tensor]:
    """Write eager's outputs, and return what the outputs held before."""
    count = sum(a["kind"] == "tensor" for a in worker.call["args"])
    inputs = iter([worker.tensor(case, i).clone() for i in range(count)])
    described = zip(worker.call["args"], payload, strict=True)
    arguments = [next(inputs) if a["kind"] == "tensor" else v for a, v in described]
    outputs = _outputs(worker, case)
    held = [out.clone() for out in outputs]
    for out, values in zip(outputs, overload(worker.call["overload"])(arguments), strict=True):
        out.copy_(values)
    return held


@pytest.mark.parametrize("what", sorted(CALLS))
def test_a_changed_input_is_the_first_but_for_one_element_and_its_old_output_is_wrong(what: str) -> None:
    name, make = CALLS[what]
    torch.manual_seed(11)
    payload = make()
    worker = Worker(FakeProfile(name, payload))
    first = worker.cases()[0]

    def answered() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Run the first input; return it and what it gave."""
        worker.check(None, {"case": first["id"], "pattern": 0})
        before = _inputs(worker, first)
        _run(worker, first, payload)
        return before, [out.clone() for out in _outputs(worker, first)]

    for case in worker.cases("changed"):
        assert (case["final"], case["placement"], case["slots"]) == (True, first["placement"], first["slots"])
        before, answer = answered()
        worker.check({"case": first["id"], "repeat": 0}, {"case": case["id"], "pattern": 1})
        now = _inputs(worker, case)
        assert sum(int((a != b).sum()) for a, b in zip(now, before, strict=True)) == 1
        held = _run(worker, case, payload)
        if worker.call["outputs"][0]["alias"] < 0:  # else the output's memory has the input
            assert all(torch.equal(a, b) for a, b in zip(held, answer, strict=True))
        one = worker.check({"case": case["id"], "repeat": 0}, None)
        assert one["status"] == "ok", one["detail"]

        answered()  # and again, with the answer of before the change
        worker.check({"case": first["id"], "repeat": 0}, {"case": case["id"], "pattern": 0})
        for out, values in zip(_outputs(worker, case), answer, strict=True):
            out.copy_(values)
        other = worker.check({"case": case["id"], "repeat": 0}, None)
        assert (other["status"], other["gate"]) == ("wrong_value", "values"), other
        assert one["number"] != other["number"] and one["number"] % 2 == other["number"] % 2 == case["number"]


def _finds(worker: Worker, pattern: int) -> tuple[Task, torch.Tensor]:
    case = worker.cases()[0]
    worker.check(None, {"case": case["id"], "pattern": 0})
    eager(worker, case)
    assert (
        worker.check({"case": case["id"], "repeat": 0}, {"case": case["id"], "pattern": pattern})["status"]
        == "ok"
    )
    return case, worker.tensor(case, 1) != worker.tensor(case, 0).relu()


@pytest.mark.parametrize("pattern", PARTS)
def test_an_old_output_is_right_but_for_a_part_which_nobody_foresees(pattern: int) -> None:
    worker = Worker(relu_card(7, 33))
    places = set()
    for _ in range(6):
        case, poisoned = _finds(worker, pattern)
        rows = poisoned.reshape(-1).nonzero().reshape(-1)
        right = worker.tensor(case, 0).relu()
        assert torch.equal(worker.tensor(case, 1)[~poisoned], right[~poisoned])
        if pattern == 2:
            assert len(rows) == 1
        elif pattern == 3:
            assert len(rows) == 33 and int(rows[0]) % 33 == 0 and int(rows[-1] - rows[0]) == 32
        else:
            assert 1 <= len(rows) <= 64 and int(rows[-1]) == 7 * 33 - 1
        places.add(tuple(rows.tolist()))
        result = worker.check({"case": case["id"], "repeat": 1}, None)  # left as it was found
        assert (result["status"], result["gate"]) == ("wrong_value", "poison")
        assert f"right but for {PARTS[pattern][0]}" in result["detail"]
        case, _ = _finds(worker, pattern)
        eager(worker, case)
        assert worker.check({"case": case["id"], "repeat": 1}, None)["status"] == "ok"
    assert len(places) > 1


def test_a_gate_that_is_off_has_none_of_it() -> None:
    assert not Worker(relu_card(7, 33), off=["dirty"]).cases("changed")
    worker = Worker(relu_card(7, 33), off=["poison"])
    case, _ = _finds(worker, 2)
    assert worker.check({"case": case["id"], "repeat": 1}, None)["status"] == "ok"
