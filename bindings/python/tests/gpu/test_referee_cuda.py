"""The referee on a device: shared buffers, poison and gaps, references in float64, comparisons, graphs as the ruler, confirmation, memory that runs out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from device_worker import PLACE, DeviceProfile, DeviceWorker, Task, rand
from kernelforge import _ext, _nvml
from kernelforge.errors import RefereeFault
from kernelforge.referee.calls import clone, map_tensors, overload
from kernelforge.referee.pool import sets_for
from kernelforge.referee.ruler import calls_of, reference_ns


def batch_norm(dtype: torch.dtype) -> list[Any]:
    c = 64
    weight, bias, mean = (rand(c, dtype=dtype) for _ in range(3))
    x = rand(8, c, 28, 28, dtype=dtype, layout=torch.channels_last)
    return [x, weight, bias, mean, weight.abs() + 0.5, False, 0.1, 1e-5]


CALLS: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "relu fp16": ("aten::relu", lambda: [rand(1000, 333)]),
    "sigmoid bf16": ("aten::sigmoid", lambda: [rand(257, 129, dtype=torch.bfloat16)]),
    "silu fp32": ("aten::silu", lambda: [rand(64, 4096, dtype=torch.float32)]),
    "add in place": ("aten::add_.Tensor", lambda: [rand(64, 1024), rand(64, 1024), 1]),
    "relu strided": ("aten::relu", lambda: [rand(64, 512)[:, ::2]]),
    "softmax bf16": ("aten::_softmax", lambda: [rand(128, 2048, dtype=torch.bfloat16), -1, False]),
    "batch_norm fp16 nhwc": ("aten::native_batch_norm", lambda: batch_norm(torch.float16)),
    "group_norm bf16": (
        "aten::native_group_norm",
        lambda: [rand(1, 64, 64, 64, dtype=torch.bfloat16), None, None, 1, 64, 4096, 32, 1e-6],
    ),
    "max_pool": (
        "aten::max_pool2d_with_indices",
        lambda: [rand(4, 64, 56, 56, layout=torch.channels_last), [3, 3], [2, 2], [1, 1], [1, 1], False],
    ),
    "cat": ("aten::cat", lambda: [[rand(64, 100), rand(64, 28)], 1]),
    "mean": ("aten::mean.dim", lambda: [rand(32, 128, 7, 7), [-1, -2], True, None]),
}


def arguments_of(worker: DeviceWorker, case: Task) -> list[Any]:
    variant = worker.open.variants[case["variant"]].inputs
    return variant.arguments([worker.tensor(case, i) for i in range(len(variant.slots))])


def eager(worker: DeviceWorker, case: Task, repeat: int) -> None:
    """Write what eager makes."""
    arguments = arguments_of(worker, case)
    outs = overload(worker.call["overload"])(map_tensors(arguments, clone))
    first = len(case["slots"]) - len(worker.call["outputs"])
    for i, out in enumerate(outs):
        if out.numel():
            worker.tensor(case, first + i).copy_(out)


@pytest.mark.parametrize("name", CALLS)
def test_eager_itself_passes_every_input_bit_for_bit(name: str) -> None:
    function, arguments = CALLS[name]
    worker = DeviceWorker(DeviceProfile(function, arguments()))
    result = worker.judge(eager)
    assert (result["status"], result["exact"]) == ("ok", True), f"{name}: {result}"
    assert {c["placement"] for c in worker.prepared["cases"]} == {"start", "end"}
    assert len(result["output_hash"]) == 64


WRONG: dict[str, tuple[str, Callable[[DeviceWorker, Task, int], None]]] = {
    "a constant": ("T", lambda w, c, r: w.tensor(c, 1).fill_(0.5)),
    "nothing is written": ("were not written", lambda w, c, r: None),
    "half is written": (
        "were not written",
        lambda w, c, r: w.tensor(c, 1)[: w.tensor(c, 1).shape[0] // 2].copy_(
            w.tensor(c, 0)[: w.tensor(c, 1).shape[0] // 2].sigmoid()
        ),
    ),
    "one element is off": (
        "T2",
        lambda w, c, r: w.tensor(c, 1).copy_(w.tensor(c, 0).sigmoid())[3].mul_(1.01),
    ),
    "an input is changed": (
        "input `self` was changed",
        lambda w, c, r: (w.tensor(c, 1).copy_(w.tensor(c, 0).sigmoid()), w.tensor(c, 0)[0].add_(1)),
    ),
    "behind or in front of the output": (
        "memory around `out0` was written",
        lambda w, c, r: (
            w.tensor(c, 1, shift=32 if c["placement"] == "start" else -32).fill_(1),
            w.tensor(c, 1).copy_(w.tensor(c, 0).sigmoid()),
        ),
    ),
    "another result at the second run": (
        "gave other bits",
        lambda w, c, r: w.tensor(c, 1).copy_(w.tensor(c, 0).sigmoid() * (1 if r == 0 else 1.001)),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_candidate_that_is_wrong_is_told_how(name: str) -> None:
    words, candidate = WRONG[name]
    worker = DeviceWorker(DeviceProfile("aten::sigmoid", [rand(64, 1000, dtype=torch.float32)]))
    result = worker.judge(candidate)
    assert result["status"] == "wrong_value", f"{name} passed: {result}"
    assert words in result["detail"], f"{name}: {result['detail']}"


def test_another_order_of_operations_passes_and_a_narrow_sum_does_not() -> None:
    def softmax(dtype: torch.dtype) -> Callable[[DeviceWorker, Task, int], None]:
        def run(worker: DeviceWorker, case: Task, repeat: int) -> None:
            x = worker.tensor(case, 0).to(dtype)
            e = (x - x.amax(-1, keepdim=True)).exp()
            worker.tensor(case, 1).copy_(e / e.sum(-1, keepdim=True, dtype=dtype))

        return run

    profile = DeviceProfile("aten::_softmax", [rand(256, 1000, dtype=torch.bfloat16), -1, False])
    wide = DeviceWorker(profile).judge(softmax(torch.float64))
    assert wide["status"] == "ok", wide
    narrow = DeviceWorker(profile).judge(softmax(torch.bfloat16))
    assert narrow["status"] == "wrong_value", narrow


def test_groups_of_a_large_pointwise_call_on_the_device_are_those_of_the_host() -> None:
    from kernelforge.referee.groups import Buckets

    x = rand(3000, 1000, dtype=torch.float32)
    error = torch.rand(x.shape, device="cuda", dtype=torch.float64)
    here, there = Buckets(x), Buckets(x.cpu())
    assert here._chunks is not None
    assert torch.equal(here.amax(error).cpu(), there.amax(error.cpu()))
    torch.testing.assert_close(here.sum(error).cpu(), there.sum(error.cpu()), rtol=1e-10, atol=0)


# ---- time -------------------------------------------------------------------------------------------------------


def test_the_timing_sets_read_more_than_the_cache_holds() -> None:
    l2 = PLACE.info()["l2_bytes"]
    assert 1 << 20 < l2 < 1 << 30, f"L2 of {l2} bytes"
    for size in (1 << 22, 1 << 25, 1 << 28):
        assert sets_for(size, PLACE) * size >= 5 * l2, (
            f"{sets_for(size, PLACE)} sets of {size} for an L2 of {l2}"
        )
    worker = DeviceWorker(DeviceProfile("aten::relu", [rand(2048, 1024)]))
    places = worker.prepared["timing"]["v0"]
    assert len(places) == sets_for(2048 * 1024 * 2, PLACE)
    assert len({p[0]["offset"] for p in places}) == len(places)
    assert all(p[1] is None and p[0]["offset"] % 512 == 0 for p in places)


def test_eager_is_timed_as_a_graph_and_the_same_graph_serves_again() -> None:
    worker = DeviceWorker(DeviceProfile("aten::relu", [rand(4096, 4096)]))

    def timed(inner: int) -> list[float]:
        task = {"kind": "time_eager", "card": "c-1", "variant": "v0", "samples": 5, "inner": inner}
        answer = worker.referee.execute(task)
        assert answer["reference_ns"] > 0
        return answer["samples_ns"]

    first = timed(4)
    calls = worker.open._timed["v0"]
    assert calls.how == "graph"
    graphs = dict(calls._graphs)
    second = timed(4)
    assert dict(calls._graphs) == graphs, "a second capture for the same number of calls"
    least_us = 4096 * 4096 * 4 / 5.2e6  # 5.2 TB/s: more than any memory of today gives
    for samples in (first, second, timed(32)):
        us = statistics.median(samples) / 1e3
        print(f"relu fp16 of 64 MB moved: {us:.1f} us, floor {least_us:.1f} us, samples {samples}")
        assert us > least_us, f"{us} us: the data came from a cache, or a replay was divided wrongly"
        assert us < 100 * least_us


def test_an_operator_that_waits_for_the_device_is_timed_by_events() -> None:
    calls = calls_of(PLACE, "aten::nonzero", [[rand(100, 100)] for _ in range(2)])
    times = calls.eager(3, 2)
    assert calls.how == "events"
    assert len(times) == 3 and min(times) > 0
    torch.ones(3, device="cuda").add_(1).cpu()  # the broken capture left nothing behind
    assert calls_of(PLACE, "aten::relu", [[rand(64, 64)]]).eager(2, 2)[0] > 0


def test_eager_against_eager_is_even() -> None:
    sets = [[rand(2048, 2048)] for _ in range(8)]
    calls = calls_of(PLACE, "aten::silu", sets)
    pairs = calls.blocks(24, 20, seed=1)
    ratios = sorted(e / o for e, o in zip(pairs["eager_ns"], pairs["ours_ns"], strict=True))
    state = _nvml.read(PLACE.info()["pci"])
    print(
        f"A/A on silu: median {statistics.median(ratios):.4f}, {ratios[0]:.4f} to {ratios[-1]:.4f}; {state}"
    )
    assert 0.95 < statistics.median(ratios) < 1.05, f"{ratios}\n{state}"


def test_graph_times_agree_with_events_around_a_long_run() -> None:
    sets = [[rand(4096, 4096)] for _ in range(4)]
    graph_us = statistics.median(calls_of(PLACE, "aten::relu", sets).eager(9, 8)) / 1e3
    extension = _ext.load()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    extension.run_calls("aten::relu", sets, 50, False)
    torch.cuda.synchronize()
    start.record()
    extension.run_calls("aten::relu", sets, 400, False)
    end.record()
    torch.cuda.synchronize()
    events_us = start.elapsed_time(end) * 1e3 / 400
    assert 0.7 < graph_us / events_us < 1.15, f"graph {graph_us:.2f} us, events {events_us:.2f} us"


def test_the_reference_kernel_is_steady() -> None:
    times = [reference_ns(PLACE) for _ in range(8)]
    assert max(times) < 1.5 * min(times), times


# ---- memory and pace --------------------------------------------------------------------------------------------


def test_a_device_without_room_for_a_reference_is_one_clear_error_and_recovers() -> None:
    profile = DeviceProfile(
        "aten::sigmoid", [rand(8192, 4096, dtype=torch.float32)]
    )  # 128 MiB, 10 to 15 times that in float64
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (300 << 20)) / total)
    try:
        with pytest.raises(RefereeFault, match="no room") as e:
            DeviceWorker(profile)
        assert "smaller batch" in e.value.hint
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    result = DeviceWorker(profile).judge(eager, repeats=1)
    assert result["status"] == "ok", result


def test_shared_buffers_are_not_torchs_and_go_when_the_card_is_released() -> None:
    before = torch.cuda.memory_allocated()
    worker = DeviceWorker(DeviceProfile("aten::relu", [rand(8192, 8192)]))
    buffers = worker.prepared["buffers"]
    assert sum(b["bytes"] for b in buffers) > 2 * 8192 * 8192 * 2
    assert all(b["fd"] >= 0 and b["bytes"] % (2 << 20) == 0 for b in buffers), buffers
    assert torch.cuda.memory_allocated() - before < 64 * 8192 * 8192, "torch holds inputs and references only"
    # Other processes may use the device, so that its free memory says nothing: a buffer that is gone has closed its descriptor.
    open_before = {b["fd"] for b in buffers if Path(f"/proc/self/fd/{b['fd']}").exists()}
    assert open_before == {b["fd"] for b in buffers}
    worker.buffers.clear()
    del worker.open
    worker.referee.execute({"kind": "release", "card": "c-1"})
    held = torch.cuda.memory_allocated() - before
    assert held <= (2 * 8192 * 8192) + (1 << 20), (
        f"torch still holds {held >> 20} MiB (expected the payload, 128)"
    )
    left = [b for b in buffers if Path(f"/proc/self/fd/{b['fd']}").exists()]
    assert not left, f"{len(left)} of {len(buffers)} buffers outlive the release: {left}"


def test_pace_of_checks() -> None:
    """Not a limit: what a check costs is printed, since hundreds of them judge one candidate."""
    for name, arguments in (
        ("relu 1 MB", [rand(512, 1024)]),
        ("relu 64 MB", [rand(8192, 4096)]),
    ):
        worker = DeviceWorker(DeviceProfile("aten::relu", arguments))
        worker.judge(eager, repeats=1)
        begin, count = time.perf_counter(), 0
        for case in worker.prepared["cases"]:
            worker.check(None, {"case": case["id"], "pattern": 0})
            for repeat in range(5):
                eager(worker, case, repeat)
                again = {"case": case["id"], "pattern": repeat % 2}
                result = worker.check({"case": case["id"], "repeat": repeat}, again)
                count += 1
                assert result["status"] == "ok", result
        print(f"{name}: {count} checks, {(time.perf_counter() - begin) / count * 1e3:.3f} ms each")
        assert count == 5 * len(worker.prepared["cases"])
