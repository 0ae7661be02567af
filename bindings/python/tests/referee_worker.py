"""Plays the worker for tests of the referee: maps its buffers by descriptor, as another process would, and writes what a candidate would."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import torch

from calling import call_of
from kernelforge import _ext
from kernelforge.referee import Referee

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

    def __init__(self, profile: FakeProfile, seed: int = 3, off: Sequence[str] = ()) -> None:
        _ext.load()
        self.call = profile.cards[0]["variants"][0]["call"]
        self.referee = Referee(profile)
        task = {"kind": "prepare", "card": "c-1", "seed": seed, "off": list(off)}
        self.prepared = self.referee.execute(task)
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
            for repeat in range(1 if case["kind"] == "changed" else repeats):  # another one each time
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
