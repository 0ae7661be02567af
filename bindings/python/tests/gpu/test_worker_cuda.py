"""The worker program on a real device, spoken to in frames: what it says of itself, runs, times; faults, guards and hangs; that the referee's process and its
data outlive all of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from frames import Worker
from kernelforge import _core, _ext
from on_cuda import need_gpu

N = 1 << 20
CALL = {
    "overload": "aten::relu",
    "args": [{"name": "self", "kind": "tensor", "dtype": "float32", "sizes": [N], "strides": [1]}],
    "outputs": [{"dtype": "float32", "sizes": [N], "strides": [1], "alias": -1}],
}
HEAD = 'extern "C" __global__ void kf_main(const float* x, float* y, long n) {\n  long i = blockIdx.x * 256l + threadIdx.x;\n'
DOUBLE = HEAD + "  if (i < n) y[i] = 2 * x[i];\n}"


def plan(**kernel: Any) -> dict[str, Any]:
    args = [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i64"}]
    main = {
        "entry": "kf_main",
        "grid": ["ceildiv(out0_numel, 256)", "1", "1"],
        "block": ["256", "1", "1"],
        "smem": "0",
        "args": args,
    } | kernel
    return {
        "id": "p-00000001",
        "card": "c-00000001",
        "variant": "v0",
        "node": 1,
        "state": "approved",
        "call": CALL,
        "spec": {"schema": 1, "constants": {}, "workspaces": [], "kernels": [main]},
        "align": [16, 16],
        "deterministic": True,
        "exact": True,
    }


class Bench:
    """A worker with two buffers of the device mapped, input read-only, both ending at their tensors' ends."""

    def __init__(self, compile: Callable[[str], bytes], room: dict[str, Any] | None = None) -> None:
        extension = _ext.load()
        self.compile = compile
        self.worker = Worker(0, room=room)
        assert self.worker.hello["ok"], self.worker.hello
        self.buffers = [extension.Buffer(4 * N, device=0) for _ in range(2)]
        self.at = [b.bytes - 4 * N for b in self.buffers]
        self.x, self.y = (
            b.tensor(at, torch.float32, [N], [1]) for b, at in zip(self.buffers, self.at, strict=True)
        )
        self.x.copy_(torch.randn(N))
        torch.cuda.synchronize()
        told = [{"id": i, "bytes": b.bytes, "writable": i == 1} for i, b in enumerate(self.buffers)]
        mapped = self.worker.ask("map", [b.fd for b in self.buffers], buffers=told, fds=2)
        assert mapped["ok"] and len(mapped["data"]) == 2, mapped
        self.slots = [{"buffer": i, "offset": at} for i, at in enumerate(self.at)]

    def load(self, source: str, **kernel: Any) -> dict[str, Any]:
        fd = os.memfd_create("image")
        try:
            os.write(fd, self.compile(source))
            return self.worker.ask("load", [fd], plan=plan(**kernel), fds=1)
        finally:
            os.close(fd)

    def run(self, source: str, **kernel: Any) -> dict[str, Any]:
        loaded = self.load(source, **kernel)
        assert loaded["ok"], loaded
        return self.worker.ask("run", kernel=loaded["kernel"], slots=self.slots)

    def close(self) -> None:
        self.worker.close()


@pytest.fixture
def bench(nvrtc_compile: Callable[..., bytes], device_arch: str) -> Iterator[Bench]:
    need_gpu()
    for path in (_core.WORKER, _core.RUNTIME):
        if not path.exists():
            pytest.skip(f"{path.name} is not built")
    made = Bench(lambda source: nvrtc_compile(source, device_arch))
    yield made
    made.close()


def test_the_worker_says_which_device_it_has(bench: Bench) -> None:
    print(json.dumps(bench.worker.hello))
    device, torchs = bench.worker.hello["device"], torch.cuda.get_device_properties(0)
    ours = _ext.load().device_info(0)
    assert device["name"] == torchs.name
    assert (device["major"], device["minor"]) == (torchs.major, torchs.minor)
    assert device["sm_count"] == torchs.multi_processor_count
    assert device["uuid"].removeprefix("GPU-") == str(torchs.uuid).removeprefix("GPU-")
    assert device["pci"] == ours["pci"]
    assert (device["l2_bytes"], device["smem_optin"], device["vmm"]) == (
        ours["l2_bytes"],
        ours["smem_optin"],
        bool(ours["vmm"]),
    )
    assert device["mode"] in ("default", ""), "a search needs the compute mode default"
    assert not device["mps"]
    assert bench.worker.hello["tier"] == 0


def test_telemetry_is_read_or_says_why_not(bench: Bench) -> None:
    answer = bench.worker.ask("telemetry")
    print(json.dumps(answer))
    read = answer["telemetry"]
    if read is None:
        assert answer["why"]
        pytest.skip(answer["why"])
    assert read["clocks_sm_mhz"] > 100 and all(isinstance(reason, str) for reason in read["throttle"])


def test_a_kernel_runs_and_is_timed(bench: Bench) -> None:
    loaded = bench.load(DOUBLE)
    assert loaded["ok"], loaded
    ran = bench.worker.ask("run", kernel=loaded["kernel"], slots=bench.slots)
    assert ran["ok"], ran
    assert torch.equal(bench.y, 2 * bench.x)
    sets = [[bench.slots[0], None], bench.slots]
    timed = bench.worker.ask("time", kernel=loaded["kernel"], sets=sets, samples=20, inner=50, warm=True)
    assert timed["ok"], timed
    print(
        f"run {ran['us']:.1f} us; a launch of {8 * N / 2**20:.0f} MiB: {min(timed['samples_ns']):.0f} to {max(timed['samples_ns']):.0f} ns; "
        f"reference {timed['reference_ns']:.0f} ns"
    )
    assert len(timed["samples_ns"]) == 20
    assert min(timed["samples_ns"]) > 500  # 8 MiB: 2 us of memory, less from the L2
    assert max(timed["samples_ns"]) < 1e6
    assert 1e4 < timed["reference_ns"] < 1e7  # 256 MiB of traffic: 60 us on an H200
    assert bench.worker.ask("unload", kernel=loaded["kernel"])["ok"]
    assert bench.worker.ask("unmap", buffers=[0, 1])["ok"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("past the output", "  if (i == n - 1) ((volatile float*)y)[n] = 1;\n}"),
        ("past the input", "  if (i == n - 1) y[i] = ((const volatile float*)x)[n];\n}"),
        ("before the input", "  if (i == 0) y[i] = ((const volatile float*)x)[-1];\n}"),
        ("the input itself", "  if (i == 0) ((volatile float*)x)[0] = 1;\n}"),
        ("nowhere", "  if (i == 0) *(volatile float*)0x10 = 1;\n}"),
        ("odd", "  if (i == 0) *(volatile float*)((char*)y + 1) = 1;\n}"),
    ],
)
def test_a_wild_access_ends_the_worker_and_nothing_else(bench: Bench, name: str, body: str) -> None:
    device = bench.worker.hello["device"]
    if name == "the input itself" and not device["read_only"]:
        pytest.skip("this driver does not map memory read-only")
    if name.startswith(("past", "before")) and not device["vmm"]:
        pytest.skip("no virtual memory to share: nothing is unmapped beside a buffer")
    kept = bench.x.clone()
    bench.y.fill_(3)
    torch.cuda.synchronize()
    answer = bench.run(HEAD + body)
    print(name, json.dumps(answer))
    assert not answer["ok"] and answer["error"]["code"] == "device_fault", answer
    assert bench.worker.process.wait(20) == 0  # it answered, then ended by itself: its context is lost
    assert torch.equal(bench.x, kept) and torch.equal(
        bench.x + 1, kept + 1
    )  # our context and our data are whole
    torch.cuda.synchronize()


def test_a_hanging_kernel_is_killed_and_the_next_worker_runs(bench: Bench) -> None:
    loaded = bench.load(HEAD + "  for (;;) ((volatile float*)y)[0] = ((const volatile float*)x)[i & 1];\n}")
    assert loaded["ok"], loaded
    bench.worker.socket.settimeout(1.0)
    with pytest.raises(TimeoutError):
        bench.worker.ask("run", kernel=loaded["kernel"], slots=bench.slots)
    began = time.monotonic()
    bench.worker.close()
    killed = time.monotonic() - began
    following = Bench(bench.compile)
    try:
        ran = following.run(DOUBLE)
        taken = time.monotonic() - began
        assert ran["ok"] and torch.equal(following.y, 2 * following.x), ran
    finally:
        following.close()
    print(f"gone {killed:.2f} s after the kill, the next kernel has run after {taken:.2f} s")
    assert taken < 10  # the budget is 2 s: bench/search.py holds it


@pytest.mark.parametrize(
    ("kernel", "source", "code"),
    [
        ({"smem": "smem_optin + 1"}, DOUBLE, "launch_error"),
        ({"block": ["2048", "1", "1"]}, DOUBLE, "bad_spec"),
        ({"grid": ["0", "1", "1"]}, DOUBLE, "bad_spec"),
        ({"grid": ["nothing", "1", "1"]}, DOUBLE, "bad_spec"),
        ({"entry": "kf_other"}, DOUBLE, "bad_code"),
        (
            {"block": ["512", "1", "1"]},
            DOUBLE.replace("void kf_main", "void __launch_bounds__(256) kf_main"),
            "launch_error",
        ),
    ],
)
def test_a_launch_that_cannot_be_is_refused_and_the_worker_lives(
    bench: Bench, kernel: dict[str, Any], source: str, code: str
) -> None:
    answer = bench.load(source, **kernel)
    print(json.dumps(answer))
    assert not answer["ok"] and answer["error"]["code"] in (code, "bad_spec"), answer
    assert bench.run(DOUBLE)["ok"]


def test_large_shared_memory_clusters_and_cooperative_launches_run(bench: Bench) -> None:
    shared = HEAD.replace("  long i", "  extern __shared__ float s[]; long i") + (
        "  for (int k = threadIdx.x; k < 50000; k += 256) s[k] = k;\n  __syncthreads();\n  if (i < n) y[i] = 2 * x[i] + (s[49999] - 49999);\n}"
    )
    if bench.worker.hello["device"]["smem_optin"] >= 200000:
        ran = bench.run(shared, smem="200000")
        assert ran["ok"] and torch.equal(bench.y, 2 * bench.x), ran
    strided = HEAD + "  for (; i < n; i += gridDim.x * 256l) y[i] = 2 * x[i];\n}"
    bench.y.zero_()
    torch.cuda.synchronize()
    ran = bench.run(strided, grid=["sm_count * max_blocks_per_sm", "1", "1"], cooperative=True)
    assert ran["ok"] and torch.equal(bench.y, 2 * bench.x), ran
    if bench.worker.hello["device"]["major"] >= 9:
        bench.y.zero_()
        torch.cuda.synchronize()
        ran = bench.run(strided, grid=["sm_count / 2 * 2", "1", "1"], cluster=["2", "1", "1"])
        assert ran["ok"] and torch.equal(bench.y, 2 * bench.x), ran


def test_many_workers_come_and_go(bench: Bench) -> None:
    starts = []
    for _ in range(3):
        began = time.monotonic()
        with Worker(0) as worker:
            assert worker.hello["ok"], worker.hello
            starts.append(time.monotonic() - began)
    print("start to hello:", " ".join(f"{s:.2f} s" for s in starts))
    assert bench.run(DOUBLE)["ok"]  # beside the others
