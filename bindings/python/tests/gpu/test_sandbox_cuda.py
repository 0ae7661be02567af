"""The sandbox's tiers on a real device: a CUDA worker starts, tries its walls, and judges a kernel behind them. Where a tier does not hold, the test says what
would have to be opened for the driver."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from frames import Ended, Worker
from kernelforge import _doctor_sandbox
from on_cuda import need_gpu
from test_worker_cuda import DOUBLE, HEAD, Bench

# What is opened, one after the other, to find what a driver misses.
WIDER: dict[str, dict[str, list[str]]] = {
    "read /": {"read": ["/"]},
    "write /proc": {"devices": ["/proc"]},
    "write /dev": {"devices": ["/dev"]},
    "write /dev/shm": {"write": ["/dev/shm"]},
    "write /sys": {"devices": ["/sys"]},
    "write /tmp": {"write": ["/tmp"]},
    "write /var": {"write": ["/var"]},
    "write /run": {"write": ["/run"]},
    "read /etc": {"read": ["/etc"]},
    "write /root and /home": {"write": ["/root", "/home"]},
    "write everything": {"write": ["/"], "devices": ["/"], "read": ["/"]},
}


def starts(room: dict[str, Any]) -> str:
    """Return "" if a worker is greeted in a room, else what it said. Its self-test may fail: the room is wider than a tier allows."""
    try:
        with Worker(0, room=room) as worker:
            hello = worker.hello
            return "" if hello["ok"] else json.dumps(hello["error"])
    except Ended as e:
        return str(e)


@pytest.mark.parametrize("tier", [1, 2])
def test_a_kernel_is_judged_behind_walls(
    tier: int, nvrtc_compile: Callable[..., bytes], device_arch: str
) -> None:
    need_gpu()
    row = _doctor_sandbox.tried(0)[tier]
    for process in row["processes"]:
        possible = [a for a in process["attempts"] if not a["stopped"]]
        print(
            f"{process['name']}: tier {process['tier']}, {len(process['attempts'])} attempts, possible: {possible}"
        )
        print(f"  ready after {process['seconds']:.2f} s")
    if not row["holds"]:
        print(row["why"])
        if tier == 2 and "namespaces" in row["why"]:
            pytest.skip(row["why"])
        helps = {}
        for what, more in WIDER.items():
            room = dict(row["room"])
            for kind, paths in more.items():
                room[kind] = [*room.get(kind, []), *paths]
            helps[what] = starts(room) or "it starts"
            print(f"{what}: {helps[what]}")
        pytest.fail(f"tier {tier} does not hold: {row['why']}; with more: {helps}")
    began = time.monotonic()
    bench = Bench(lambda source: nvrtc_compile(source, device_arch), row["room"])
    print(f"start to mapped buffers: {time.monotonic() - began:.2f} s")
    try:
        hello = bench.worker.hello
        assert hello["tier"] == tier
        assert [a for a in hello["attempts"] if not a["stopped"]] == []
        loaded = bench.load(DOUBLE)
        assert loaded["ok"], loaded
        ran = bench.worker.ask("run", kernel=loaded["kernel"], slots=bench.slots)
        assert ran["ok"] and torch.equal(bench.y, 2 * bench.x), ran
        timed = bench.worker.ask(
            "time", kernel=loaded["kernel"], sets=[bench.slots, bench.slots], samples=10, inner=20, warm=True
        )
        assert timed["ok"] and len(timed["samples_ns"]) == 10, timed
        print("telemetry:", json.dumps(bench.worker.ask("telemetry")))
        fault = bench.run(HEAD + "  if (i == 0) *(volatile float*)0x10 = 1;\n}")
        assert not fault["ok"] and fault["error"]["code"] == "device_fault", fault
        assert bench.worker.process.wait(20) == 0  # it answered, then ended by itself: its context is lost
        torch.cuda.synchronize()
    finally:
        bench.close()


def test_a_start_behind_walls_costs_little() -> None:
    need_gpu()
    rooms = {t: row["room"] if t else None for t, row in _doctor_sandbox.tried(0).items() if row["holds"]}
    taken = dict.fromkeys(rooms, float("inf"))
    for _ in range(10):  # the least of each tier, in turns: other tests may load the machine
        for tier, room in rooms.items():
            began = time.monotonic()
            with Worker(0, room=room) as worker:
                assert worker.hello["ok"], worker.hello
                taken[tier] = min(taken[tier], time.monotonic() - began)
        if max(taken.values()) < taken[0] + 0.5:
            break
    print("start to hello by tier:", {t: f"{s:.2f} s" for t, s in taken.items()})
    assert max(taken.values()) < taken[0] + 0.5
