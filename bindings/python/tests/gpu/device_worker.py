"""Plays the worker for tests of the referee on a device: writes into the same buffers what a candidate would, from this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelforge import _ext
from kernelforge._place import Place
from kernelforge.referee import Referee
from referee_worker import FakeProfile

Task = dict[str, Any]
PLACE = Place(0)


class DeviceProfile(FakeProfile):
    """One card with one variant for each list of arguments, on device 0."""

    def __init__(self, name: str, *payloads: list[Any]) -> None:
        super().__init__(name, *payloads)
        self.place = PLACE
        self.cards[0]["target"] = "cuda"


class DeviceWorker:
    """A referee with one open card, and its buffers."""

    def __init__(self, profile: DeviceProfile, seed: int = 3) -> None:
        _ext.load()
        self.call = profile.cards[0]["variants"][0]["call"]
        self.referee = Referee(profile, place=PLACE)
        self.prepared = self.referee.execute({"kind": "prepare", "card": "c-1", "seed": seed})
        self.open = self.referee._open["c-1"]
        rooms = [r for v in self.open.variants.values() for r in v.stage.rooms]
        self.buffers = {b.id: b._buffer for b in (*rooms, *self.open._pool.slabs)}

    def check(self, compare: Task | None, poison: Task | None) -> Task:
        return self.referee.execute({"kind": "check", "card": "c-1", "compare": compare, "poison": poison})

    def tensor(self, case: Task, slot: int, *, shift: int = 0) -> torch.Tensor:
        """Return a slot's tensor as the candidate sees it. shift: bytes by which it goes wrong."""
        inputs = [a for a in self.call["args"] if a["kind"] == "tensor"]
        inputs += [i for a in self.call["args"] if a["kind"] == "tensors" for i in a["items"]]
        d, place = [*inputs, *self.call["outputs"]][slot], case["slots"][slot]
        return self.buffers[place["buffer"]].tensor(
            place["offset"] + shift, getattr(torch, d["dtype"]), d["sizes"], d["strides"]
        )

    def cases(self, kind: str | None = None) -> list[Task]:
        return [c for c in self.prepared["cases"] if kind is None or c["kind"] == kind]

    def judge(self, candidate: Callable[[DeviceWorker, Task, int], None], repeats: int = 2) -> Task:
        """Run a candidate on every case; return the first result that is not ok, with its case, else the last."""
        result: Task = {}
        for case in self.prepared["cases"]:
            for repeat in range(repeats):
                self.check(None, {"case": case["id"], "pattern": repeat % 2})
                candidate(self, case, repeat)
                torch.cuda.synchronize()
                result = self.check({"case": case["id"], "repeat": repeat}, None) | {"case": case}
                if result["status"] != "ok":
                    return result
        return result


def rand(
    *sizes: int, dtype: torch.dtype = torch.float16, layout: Any = torch.contiguous_format
) -> torch.Tensor:
    chance = torch.Generator("cuda").manual_seed(1)
    x = torch.randn(*sizes, generator=chance, device="cuda").to(dtype)
    return x.contiguous(memory_format=layout) if len(sizes) == 4 else x
