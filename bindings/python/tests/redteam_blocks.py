"""Runs corpus files for devices on the CPU (blocks.py) as the judge would, and tells what became of each: a process of its own, since some crash.

    python redteam_blocks.py FILE...        prints one JSON object a line: {"name", "status", "detail"}

Each file runs in a fork, so that a crash or a hang ends nothing else; inputs and references of a call are made once, before.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import blocks
from calling import call_of
from kernelforge._place import HOST
from kernelforge.redteam.calls import CALLS
from kernelforge.referee.bounds import compare, same_bits
from kernelforge.referee.cases import Variant, bounds_of

CORPUS = blocks.kernels.ROOT / "go/judge/redteam/cuda"
FIELDS = ("kind", "call", "dies", "gate", "why", "spec")
LIMIT_S = 240  # of one file, on a machine that does other things too


@dataclass(frozen=True)
class File:
    """A corpus file: its header, and what is judged of it."""

    name: str
    header: dict[str, str]
    source: str

    @property
    def good(self) -> bool:
        return self.name.startswith("good/")

    @property
    def gate(self) -> str:
        return self.header.get("gate", "").split(" ")[0]

    @property
    def candidate(self) -> dict[str, Any]:
        return {"family": self.name, "source": self.source, "spec": json.loads(self.header["spec"])}


def read(path: Path) -> File:
    """Return a corpus file."""
    header, source = {}, path.read_text()
    while "spec" not in header:
        line, _, source = source.partition("\n")
        field, _, value = line.removeprefix("// ").partition(": ")
        assert field in FIELDS, f"{path}: {line}"
        header[field] = value
    return File(f"{path.parent.name}/{path.stem}", header, source)


class Judged:
    """The inputs of one call, with what each output of a right candidate may be."""

    def __init__(self, name: str) -> None:
        call = CALLS[name]
        payload = call.made(name, HOST)
        self.call = call_of(call.overload, payload)
        variant = Variant(self.call, payload, seed=11)
        self.cases = []
        for case in variant.inputs():
            tensors = variant.draw(case.kind, case.number)
            bounds = bounds_of(variant.overload, variant.arguments(tensors), case.kind)
            self.cases.append((case, tensors, bounds))
        # On a device the statistics of a norm of half types are float32, on the CPU they are not: these are not compared.
        outs = self.call["outputs"]
        self.compared = len(outs)
        if "norm" in call.overload and outs[0]["dtype"] not in ("float32", "float64"):
            self.compared = 1
            for out in outs[1:]:
                out["dtype"] = "float32"


Run = Callable[..., list[torch.Tensor]]


def compared(judged: Judged, run: Run) -> tuple[str, str]:
    """Return status and detail of a candidate's runs over the inputs of a call, as the gates on a device would.

    Args:
        judged: the call; of any class with these fields.
        run: gives the outputs for (tensors, bounds, at_end, poison, pieces), as blocks.launch does.

    Raises:
        AssertionError: of a run, which says where.
    """
    for case, tensors, bounds in judged.cases:
        where, first = f"{case.kind} {case.number}", None
        for poison, pieces in ((0xFF, 1), (0x4B, 2)):  # two poisons; threads forwards, then backwards
            try:
                outs = run(tensors, bounds, at_end=case.placement == "end", poison=poison, pieces=pieces)
            except AssertionError as error:
                raise AssertionError(f"{where}: {error}") from error
            finding = compare(bounds[: judged.compared], outs[: judged.compared])
            if finding.status != "ok":
                return finding.status, f"{where}: {finding.detail}"
            if first and not all(map(same_bits, first, outs)):
                return "wrong_value", f"{where}: two runs give different bits"
            first = outs
    return "ok", ""


def judge(judged: Judged, candidate: dict[str, Any], objects: dict[str, Any]) -> tuple[str, str]:
    """Return status and detail, as the gates on a device would."""

    def launch(tensors: Any, bounds: Any, **options: Any) -> list[torch.Tensor]:
        return blocks.launch(candidate, objects, judged.call, tensors, **options)

    try:
        return compared(judged, launch)
    except AssertionError as error:
        return ("timeout" if "barrier" in str(error) else "wrong_value"), str(error)


def run(files: Sequence[File]) -> None:
    """Judge files and print what became of them, those of a call together."""
    torch.set_num_threads(1)  # a fork has no other threads
    objects = blocks.compile_all((f.candidate for f in files), soiled=True)
    made = functools.lru_cache(1)(Judged)
    for file in sorted(files, key=lambda f: f.header["call"]):
        status, detail = _apart(made(file.header["call"]), file, objects)
        print(json.dumps({"name": file.name, "status": status, "detail": detail}), flush=True)


def _apart(judged: Judged, file: File, objects: dict[str, Any]) -> tuple[str, str]:
    answer, question = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(question, json.dumps(judge(judged, file.candidate, objects)).encode())
        except BaseException as error:
            os.write(question, json.dumps(("error", repr(error))).encode())
        os._exit(0)
    os.close(question)
    ready, _, _ = select.select([answer], [], [], LIMIT_S)
    if not ready:
        os.kill(child, signal.SIGKILL)
    said = os.read(answer, 1 << 16)
    os.close(answer)
    _, end = os.waitpid(child, 0)
    if said:
        status, detail = json.loads(said)
        return status, detail
    if not ready:
        return "timeout", f"it did not end within {LIMIT_S} s"
    return "crash", signal.Signals(os.WTERMSIG(end)).name if os.WIFSIGNALED(end) else str(end)


if __name__ == "__main__":
    run([read(Path(p)) for p in sys.argv[1:]])
