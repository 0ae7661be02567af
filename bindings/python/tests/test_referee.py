"""The referee's tasks against a worker played by this file: it maps the descriptors as the worker does and writes what a candidate would."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelforge.errors import RefereeFault
from kernelforge.referee.calls import overload
from kernelforge.referee.draws import Slot
from kernelforge.referee.memory import Room
from kernelforge.referee.pool import last_level_cache, sets_for
from referee_worker import FakeProfile, Task, Worker, eager, relu_card

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


def test_a_changed_inputs_digest_is_that_runs_own() -> None:
    """Whoever gives eager's bits has one digest a case, but a changed input is another for each run."""
    worker = Worker(relu_card(16, 64))
    found: dict[str, list[str]] = {}
    for kind in ("captured", "changed"):
        case, first = worker.cases(kind)[0], worker.prepared["cases"][0]
        for _ in range(2):
            for now in (first, case):
                worker.check(None, {"case": now["id"], "pattern": 0})
                eager(worker, now)
                result = worker.check({"case": now["id"], "repeat": 0}, None)
            assert result["exact"]
            found.setdefault(kind, []).append(result["output_hash"])
    assert found["captured"][0] == found["captured"][1]
    assert found["changed"][0] != found["changed"][1]


def test_an_output_may_hold_poisons_bits_where_eager_has_them() -> None:
    """Bits like these raise a suspicion, which a closer look dispels."""
    x = torch.randn(16, 64).abs()
    x.view(torch.int32)[3, 5:7] = torch.tensor([0x7FDA5A5A, 0x4B3A5A5A], dtype=torch.int32)  # as in memory.py
    profile = FakeProfile("aten::relu", [x])
    assert Worker(profile).judge(eager)["status"] == "ok"

    def skips_one(worker: Worker, case: Task, repeat: int) -> None:
        out, right = worker.tensor(case, 1).view(-1), worker.tensor(case, 0).relu().view(-1)
        out[:9], out[10:] = right[:9], right[10:]  # another element keeps the poison

    result = Worker(profile).judge(skips_one)
    assert (result["status"], result["gate"]) == ("wrong_value", "poison")
    assert "1 of 1024 elements were not written, the first at [0, 9]" in result["detail"]


def test_every_nan_may_come_out_where_every_nan_goes_in() -> None:
    """Among all inputs of a type are the poison's bits, and whoever keeps a NaN's payload writes them."""
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    room = Room(
        Slot("out0", {"dtype": "bfloat16", "sizes": [1 << 16], "strides": [1], "alias": -1}, read=False),
        16,
        writable=True,
    )
    for pattern in (0, 1):
        room.load("end", pattern, None)
        assert int(room.left(room.private(), x, every_nan=True).sum()) == (1 << 16) - (
            2 * 127 if pattern == 0 else 1
        )
        room.view.copy_(x)
        assert not bool(room.left(room.private(), x.abs(), every_nan=True).any())


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
    monkeypatch.setattr("kernelforge._place.Place.free_bytes", lambda place: 4)
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


# ---- time -----------------------------------------------------------------------------------------------


def test_eager_is_timed_beside_the_reference_kernel() -> None:
    worker = Worker(relu_card(64, 1000))
    timed = worker.referee.execute(
        {"kind": "time_eager", "card": "c-1", "variant": "v0", "samples": 3, "inner": 2}
    )
    assert len(timed["samples_ns"]) == 3
    assert min(timed["samples_ns"]) > 0
    assert timed["reference_ns"] > 0


def test_special_values_reach_every_pattern_where_there_is_one_row() -> None:
    worker = Worker(FakeProfile("aten::sum.dim_IntList", [torch.randn(40, 50), [0, 1], False, None]))
    seen = []
    for case in worker.cases("special"):
        worker.check(None, {"case": case["id"], "pattern": 0})
        seen.append(worker.tensor(case, 0).clone())
    assert any(torch.isnan(t).any() for t in seen)
    assert any((t == -math.inf).all() for t in seen)
    assert any((t == t[0, 0]).all() and torch.isfinite(t).all() for t in seen)
