"""Confirmation in the user's process: a plan of one line of C++ against eager by the real dispatch path, alone and in a whole model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import packs
from kernelforge import _ext
from kernelforge.referee import Referee
from referee_worker import Task, Worker, relu_card


@pytest.fixture
def relu_plan(tmp_path: Path) -> Callable[[str], Task]:
    """Return a `confirm` task for relu on [64, 1000] made of one line of C++."""

    def make(body: str) -> Task:
        folder = packs.write(tmp_path / f"pack{abs(hash(body))}", body)
        plan = json.loads((folder / "pack.json").read_text())["plans"][0]
        plan = {k: v for k, v in plan.items() if k not in ("code", "source", "evidence")}
        image = next((folder / "code").iterdir())
        return {
            "kind": "confirm",
            "card": "c-1",
            "variant": "v0",
            "plan": plan,
            "image": str(image),
            "blocks": 6,
            "seed": 5,
        }

    return make


def test_a_confirmation_is_pairs_by_the_real_path_and_leaves_nothing_served(
    relu_plan: Callable[[str], Task],
) -> None:
    worker = Worker(relu_card(64, 1000))
    answer = worker.referee.execute(relu_plan(packs.RIGHT))
    assert (answer["status"], answer["detail"]) == ("ok", "")
    assert len(answer["eager_ns"]) == len(answer["ours_ns"]) == 6
    assert len(answer["again_ns"]) == 6
    assert (answer["readings"], answer["warm"]) == ([], {"eager_ns": [], "ours_ns": []})  # a device's
    assert answer["pool_bytes"] >= 2 * 64 * 1000 * 4
    assert _ext.load().plans() == []


def test_a_confirmation_compares_what_the_plan_made(relu_plan: Callable[[str], Task]) -> None:
    answer = Worker(relu_card(64, 1000)).referee.execute(relu_plan(packs.WRONG))
    assert (answer["status"], "T1" in answer["detail"]) == ("wrong_value", True)


def test_a_plan_that_the_dispatcher_does_not_serve_is_no_confirmation(
    relu_plan: Callable[[str], Task],
) -> None:
    task = relu_plan(packs.RIGHT)
    task["plan"]["deterministic"] = False
    torch.use_deterministic_algorithms(True)
    try:
        answer = Worker(relu_card(64, 1000)).referee.execute(task)
    finally:
        torch.use_deterministic_algorithms(False)
    assert answer["status"] == "launch_error"
    assert "did not serve it (deterministic)" in answer["detail"]


def test_an_image_that_is_none_is_rejected(relu_plan: Callable[[str], Task], tmp_path: Path) -> None:
    task = relu_plan(packs.RIGHT)
    task["image"] = str(tmp_path / "none.so")
    (tmp_path / "none.so").write_bytes(b"not an image")
    assert Worker(relu_card(64, 1000)).referee.execute(task)["status"] == "rejected"


# ---- the whole model ------------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 1000)
        self.second = torch.nn.Linear(1000, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(torch.relu(self.first(x))), 1)


def _whole_model(task: Task, in_float64: bool) -> Task:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(64, 32)
    model = (
        net if in_float64 else lambda x: net(x)
    )  # a function cannot be run in float64: noise on its inputs speaks
    with torch.no_grad():
        referee = Referee(relu_card(64, 1000), lambda: net(x), model=model, inputs=x)
        plans = [{"plan": task["plan"], "image": task["image"]}]
        return referee.execute({"kind": "confirm_model", "plans": plans, "blocks": 4})


def test_the_whole_model_is_timed_in_pairs_and_compared(relu_plan: Callable[[str], Task]) -> None:
    answer = _whole_model(relu_plan(packs.RIGHT), True)
    assert (answer["status"], answer["detail"]) == ("ok", "bitwise equal to eager")
    assert len(answer["on_ms"]) == len(answer["off_ms"]) == 4
    assert _ext.load().plans() == []


@pytest.mark.parametrize("in_float64", [True, False])
def test_a_model_whose_outputs_moved_is_refused(relu_plan: Callable[[str], Task], in_float64: bool) -> None:
    answer = _whole_model(relu_plan(packs.RIGHT.replace("? x[i]", "? x[i] * 1.001f")), in_float64)
    assert answer["status"] == "wrong_value"
    assert answer["on_ms"] == []


@pytest.mark.parametrize("in_float64", [True, False])
def test_a_model_that_only_rounds_otherwise_passes(
    relu_plan: Callable[[str], Task], in_float64: bool
) -> None:
    """Every third element moves by one rounding, as another order of summation would move it."""
    answer = _whole_model(
        relu_plan(packs.RIGHT.replace("? x[i]", "? x[i] * (i % 3 ? 1.0f : 1.0000001f)")), in_float64
    )
    assert answer["status"] == "ok", answer["detail"]
    assert "bitwise" not in answer["detail"]
