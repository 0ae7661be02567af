"""The referee's tasks against a worker played by this file: it maps the descriptors as the worker does and writes what a candidate would."""

from __future__ import annotations

import itertools
import json
import math
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import packs
from calling import call_of
from kernelforge import _ext
from kernelforge.errors import RefereeFault
from kernelforge.referee import Referee
from kernelforge.referee.calls import overload
from kernelforge.referee.pool import last_level_cache, sets_for

Task = dict[str, Any]


class FakeProfile:
    """One card with one variant for each list of arguments."""

    def __init__(self, name: str, *payloads: list[Any]) -> None:
        self.payloads = payloads
        variants = [
            {
                "id": f"v{i}",
                "call": call_of(name, p),
                "calls": 1,
                "eager_us": 10.0,
                "bytes": 1,
                "roof_us": 1.0,
            }
            for i, p in enumerate(payloads)
        ]
        self.cards = [{"id": "c-1", "overload": name, "variants": variants}]

    def payload(self, card: str, variant: str) -> list[Any] | None:
        return self.payloads[int(variant[1:])]

    def align(self, card: str, variant: str) -> list[int]:
        return []


class Worker:
    """Maps the referee's buffers by descriptor, as another process would."""

    def __init__(self, profile: FakeProfile, seed: int = 3) -> None:
        _ext.load()
        self.call = profile.cards[0]["variants"][0]["call"]
        self.referee = Referee(profile)
        self.prepared = self.referee.execute({"kind": "prepare", "card": "c-1", "seed": seed})
        self.maps: dict[int, torch.Tensor] = {}
        for b in self.prepared["buffers"]:
            room = mmap.mmap(b["fd"], b["bytes"])
            self.maps[b["id"]] = torch.frombuffer(room, dtype=torch.uint8)

    def check(self, compare: Task | None, poison: Task | None) -> Task:
        return self.referee.execute({"kind": "check", "card": "c-1", "compare": compare, "poison": poison})

    def tensor(self, case: Task, slot: int) -> torch.Tensor:
        """Return a slot's tensor as the candidate sees it."""
        place = case["slots"][slot]
        inputs = [a for a in self.call["args"] if a["kind"] == "tensor"]
        inputs += [i for a in self.call["args"] if a["kind"] == "tensors" for i in a["items"]]
        d = [*inputs, *self.call["outputs"]][slot]
        dtype = getattr(torch, d["dtype"])
        flat = self.maps[place["buffer"]][place["offset"] :]
        return (
            flat[: len(flat) // dtype.itemsize * dtype.itemsize]
            .view(dtype)
            .as_strided(d["sizes"], d["strides"])
        )

    def cases(self, kind: str | None = None) -> list[Task]:
        return [c for c in self.prepared["cases"] if kind is None or c["kind"] == kind]

    def judge(self, candidate: Callable[[Worker, Task, int], None], repeats: int = 2) -> Task:
        """Run a candidate on every case; return the first result that is not ok, else the last."""
        result: Task = {}
        for case in self.prepared["cases"]:
            for repeat in range(repeats):
                self.check(None, {"case": case["id"], "pattern": repeat % 2})
                candidate(self, case, repeat)
                result = self.check({"case": case["id"], "repeat": repeat}, None)
                if result["status"] != "ok":
                    return result
        return result


def relu_card(*sizes: int) -> FakeProfile:
    return FakeProfile("aten::relu", [torch.randn(*sizes, generator=torch.Generator().manual_seed(1))])


def eager(worker: Worker, case: Task, repeat: int = 0) -> None:
    worker.tensor(case, 1).copy_(worker.tensor(case, 0).relu())


# ---- prepare --------------------------------------------------------------------------------------------------------


def test_cases_lie_at_both_ends_of_mappings_of_their_own() -> None:
    worker = Worker(relu_card(7, 33))
    sizes = {b["id"]: b["bytes"] for b in worker.prepared["buffers"]}
    assert {(c["kind"], c["placement"]) for c in worker.cases("captured")} == {
        ("captured", "end"),
        ("captured", "start"),
    }
    assert {c["kind"] for c in worker.cases()} >= {"captured", "fresh", "special"}
    for case in worker.cases():
        used = [s["buffer"] for s in case["slots"]]
        assert len(set(used)) == len(used)
        for place, align in zip(case["slots"], worker.prepared["align"]["v0"], strict=True):
            slack = sizes[place["buffer"]] - place["offset"] - 7 * 33 * 4
            assert place["offset"] % align == 0
            assert (place["offset"] == 0) if case["placement"] == "start" else (0 <= slack < align)


def test_inputs_are_read_only_and_outputs_and_targets_in_place_writable() -> None:
    def writable(profile: FakeProfile) -> list[bool]:
        worker = Worker(profile)
        by_id = {b["id"]: b["writable"] for b in worker.prepared["buffers"]}
        return [by_id[s["buffer"]] for s in worker.cases()[0]["slots"]]

    assert writable(relu_card(4, 5)) == [False, True]
    assert writable(FakeProfile("aten::relu_", [torch.randn(4, 5)])) == [True, True]
    assert writable(FakeProfile("aten::relu.out", [torch.randn(4, 5), torch.empty(4, 5)])) == [
        False,
        True,
        True,
    ]


def test_an_output_in_place_is_the_inputs_own_memory() -> None:
    worker = Worker(FakeProfile("aten::relu_", [torch.randn(4, 5)]))
    for case in worker.cases():
        assert case["slots"][0] == case["slots"][1]
    assert all(s[0] == s[1] for s in worker.prepared["timing"]["v0"])


def test_timing_sets_rotate_over_more_than_the_last_cache() -> None:
    profile = FakeProfile("aten::add.Tensor", [torch.randn(64, 4096), torch.randn(64, 4096), 1])
    sets = Worker(profile).prepared["timing"]["v0"]
    size = 2 * 64 * 4096 * 4
    assert len(sets) == sets_for(size)
    assert len(sets) * size > 2 * last_level_cache() or len(sets) == 32
    assert all(s[2] is None for s in sets)
    for slot in (0, 1):
        offsets = sorted(s[slot]["offset"] for s in sets)
        assert all(b - a >= size // 2 for a, b in itertools.pairwise(offsets))


def test_seven_variants_share_slabs_and_the_light_ones_see_fewer_inputs() -> None:
    profile = FakeProfile("aten::relu", *[[torch.randn(n, 100)] for n in (90, 3, 4, 5, 6, 7, 8)])
    for v in profile.cards[0]["variants"]:
        v["eager_us"] = float(v["call"]["args"][0]["sizes"][0])
    prepared = Worker(profile).prepared
    count = {
        v["id"]: sum(c["variant"] == v["id"] for c in prepared["cases"]) for v in profile.cards[0]["variants"]
    }
    assert count["v0"] > count["v1"] >= 3
    slabs = {s["buffer"] for sets in prepared["timing"].values() for row in sets for s in row if s}
    assert len(slabs) == 1


# ---- check ----------------------------------------------------------------------------------------------------------


def test_eager_passes_and_is_exact() -> None:
    result = Worker(relu_card(7, 33)).judge(eager)
    assert (result["status"], result["exact"], len(result["output_hash"])) == ("ok", True, 64)


def _all_but_the_last(worker: Worker, case: Task, repeat: int) -> None:
    out = worker.tensor(case, 1).view(-1)
    out[:-1] = worker.tensor(case, 0).view(-1)[:-1].relu()


def _one_behind(worker: Worker, case: Task, repeat: int) -> None:
    eager(worker, case)
    place = case["slots"][1]
    end = place["offset"] + 7 * 33 * 4
    if case["placement"] == "start":
        worker.maps[place["buffer"]][end : end + 4] = 0


def _one_in_front(worker: Worker, case: Task, repeat: int) -> None:
    eager(worker, case)
    place = case["slots"][1]
    if case["placement"] == "end":
        worker.maps[place["buffer"]][place["offset"] - 1] = 0


def _changes_its_input(worker: Worker, case: Task, repeat: int) -> None:
    eager(worker, case)
    worker.tensor(case, 0)[0, 0] = 5.0


def _differs_from_run_to_run(worker: Worker, case: Task, repeat: int) -> None:
    eager(worker, case)
    out = worker.tensor(case, 1)
    out[0, 0] = -0.0 if out[0, 0] == 0 and repeat else out[0, 0]


def _wrong(worker: Worker, case: Task, repeat: int) -> None:
    worker.tensor(case, 1).copy_(worker.tensor(case, 0).clamp(min=1e-3))


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (_all_but_the_last, "1 of 231 elements were not written"),
        (_one_behind, "behind it"),
        (_one_in_front, "in front of it"),
        (_changes_its_input, "input `self` was changed"),
        (_differs_from_run_to_run, "other bits than the first run"),
        (_wrong, "T1 bit for bit"),
        (lambda worker, case, repeat: None, "231 of 231 elements were not written"),
    ],
)
def test_faults_are_named(candidate: Callable[[Worker, Task, int], None], words: str) -> None:
    result = Worker(relu_card(7, 33)).judge(candidate)
    assert result["status"] == "wrong_value"
    assert words in result["detail"]
    assert result["worst"] > 1


def test_poison_that_is_a_nan_does_not_pass_for_eagers_nan() -> None:
    """Where eager has NaN, memory that was never written holds a NaN, too."""

    def skips_nan(worker: Worker, case: Task, repeat: int) -> None:
        x, out = worker.tensor(case, 0).reshape(-1), worker.tensor(case, 1).view(-1)
        keep = ~torch.isnan(x)
        out[keep] = x[keep].relu()

    result = Worker(relu_card(64, 64)).judge(skips_nan, repeats=1)
    assert (result["status"], "not written" in result["detail"]) == ("wrong_value", True)


def test_memory_between_strided_outputs_is_watched() -> None:
    def padded() -> torch.Tensor:
        return torch.zeros(6, 12)[:, :8]

    profile = FakeProfile("aten::relu.out", [torch.randn(6, 8), padded()])

    def good(worker: Worker, case: Task, repeat: int) -> None:
        worker.tensor(case, 2).copy_(worker.tensor(case, 0).relu())

    def fills_the_gaps(worker: Worker, case: Task, repeat: int) -> None:
        out = worker.tensor(case, 2)
        out.as_strided((68,), (1,)).fill_(0.0)
        good(worker, case, repeat)

    assert Worker(profile).judge(good)["status"] == "ok"
    assert "gaps of its strides" in Worker(profile).judge(fills_the_gaps)["detail"]


def test_a_call_in_place_is_restored_before_every_run() -> None:
    profile = FakeProfile("aten::add_.Tensor", [torch.randn(5, 9), torch.randn(5, 9), 1])

    def good(worker: Worker, case: Task, repeat: int) -> None:
        worker.tensor(case, 0).add_(worker.tensor(case, 1))

    result = Worker(profile).judge(good, repeats=3)
    assert (result["status"], result["exact"]) == ("ok", True)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("aten::cat", lambda: [[torch.randn(3, 4), torch.randn(3, 5)], 1]),
        ("aten::mul.Tensor", lambda: [torch.randn(6, 8), torch.randn(6, 1).expand(6, 8)]),
        ("aten::where.self", lambda: [torch.rand(6, 8) < 0.5, torch.randn(6, 8), torch.randn(8, 6).t()]),
        (
            "aten::max_pool2d_with_indices",
            lambda: [torch.randn(2, 3, 9, 9), [3, 3], [2, 2], [1, 1], [1, 1], False],
        ),
        (
            "aten::native_batch_norm",
            lambda: [
                torch.randn(2, 3, 4, 4),
                torch.ones(3),
                torch.zeros(3),
                torch.zeros(3),
                torch.ones(3),
                False,
                0.1,
                1e-5,
            ],
        ),
        ("aten::copy_", lambda: [torch.zeros(6, 8, dtype=torch.bfloat16), torch.randn(6, 8), False]),
    ],
)
def test_eager_passes_on_other_kinds_of_calls(name: str, make: Callable[[], list[Any]]) -> None:
    profile = FakeProfile(name, make())

    def candidate(worker: Worker, case: Task, repeat: int) -> None:
        args = iter(range(100))
        arguments: list[Any] = []
        for described, value in zip(worker.call["args"], profile.payloads[0], strict=True):
            if described["kind"] == "tensor":
                arguments.append(worker.tensor(case, next(args)).clone())
            elif described["kind"] == "tensors":
                arguments.append([worker.tensor(case, next(args)).clone() for _ in described["items"]])
            else:
                arguments.append(value)
        first = next(args)
        for i, out in enumerate(overload(name)(arguments)):
            if out.numel():
                worker.tensor(case, first + i).copy_(out)

    result = Worker(profile).judge(candidate)
    assert (result["status"], result["exact"]) == ("ok", True), result["detail"]


def test_references_are_in_no_buffer_that_is_exported() -> None:
    worker = Worker(relu_card(64, 64))
    case = worker.cases("captured")[0]
    worker.check(None, {"case": case["id"], "pattern": 0})
    expected = worker.tensor(case, 0).relu().view(-1).view(torch.uint8)
    window = expected[4096 : 4096 + 64].numpy().tobytes()
    assert all(window not in m.numpy().tobytes() for m in worker.maps.values())


def test_inputs_are_made_again_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelforge.referee.tasks.free_bytes", lambda: 4)
    result = Worker(relu_card(7, 33)).judge(eager)
    assert (result["status"], result["exact"]) == ("ok", True)


def test_the_same_seed_gives_the_same_inputs_and_another_gives_others() -> None:
    def fresh(seed: int) -> list[torch.Tensor]:
        worker = Worker(relu_card(7, 33), seed)
        found = []
        for case in worker.cases("fresh"):
            worker.check(None, {"case": case["id"], "pattern": 0})
            found.append(worker.tensor(case, 0).clone())
        return found

    assert all(torch.equal(a, b) for a, b in zip(fresh(1), fresh(1), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(fresh(1), fresh(2), strict=True))


def test_release_frees_the_descriptors() -> None:
    worker = Worker(relu_card(7, 33))
    fds = [b["fd"] for b in worker.prepared["buffers"]]
    worker.referee.execute({"kind": "release", "card": "c-1"})
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_task_that_cannot_be_carried_out_says_so() -> None:
    worker = Worker(relu_card(4, 4))
    with pytest.raises(RefereeFault, match="no such task"):
        worker.referee.execute({"kind": "guess"})
    with pytest.raises(RefereeFault, match="was not prepared"):
        worker.referee.execute({"kind": "check", "card": "c-2", "compare": None, "poison": None})
    with pytest.raises(RefereeFault, match="no such case"):
        worker.check(None, {"case": 99, "pattern": 0})
    with pytest.raises(RefereeFault, match="not what was placed last"):
        worker.check({"case": 0, "repeat": 0}, None)


# ---- time and confirm -----------------------------------------------------------------------------------------------


def test_eager_is_timed_beside_the_reference_kernel() -> None:
    worker = Worker(relu_card(64, 1000))
    timed = worker.referee.execute(
        {"kind": "time_eager", "card": "c-1", "variant": "v0", "samples": 3, "inner": 2}
    )
    assert len(timed["samples_ns"]) == 3
    assert min(timed["samples_ns"]) > 0
    assert timed["reference_ns"] > 0


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
    assert len(answer["aa_ns"][0]) == len(answer["aa_ns"][1]) >= 6
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


def test_special_values_reach_every_pattern_where_there_is_one_row() -> None:
    worker = Worker(FakeProfile("aten::sum.dim_IntList", [torch.randn(40, 50), [0, 1], False, None]))
    seen = []
    for case in worker.cases("special"):
        worker.check(None, {"case": case["id"], "pattern": 0})
        seen.append(worker.tensor(case, 0).clone())
    assert any(torch.isnan(t).any() for t in seen)
    assert any((t == -math.inf).all() for t in seen)
    assert any((t == t[0, 0]).all() and torch.isfinite(t).all() for t in seen)
