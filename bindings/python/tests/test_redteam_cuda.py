"""The red-team corpus for devices, on the CPU (redteam_blocks.py): right kernels pass the referee's comparison there, and wrong ones fail it.

A sample by a seed; KF_REDTEAM=all takes every file. What needs a device (launches, waits, races of blocks, the image) is judged by
`kernelforge redteam --target cuda` there, and what dies before a device by go/judge/redteam_cuda_test.go.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import blocks
from kernelforge.redteam.calls import CALLS
from redteam_blocks import CORPUS, File, Judged, judge, read

GATES = {"poison", "guard_pages", "inputs", "values", "special", "exact", "exhaustive", "repeats", "dirty"}
NOT_SHOWN = {
    "bad/array_half_written_mean": "the CPU's stack is clean",
    "bad/race_across_blocks_sum": "blocks run one after the other",
    "bad/atomics_in_any_order_sum": "blocks run one after the other",
    "bad/workspace_as_cache_mean": "a run finds nothing of the run before",
    "bad/early_return_by_blocks_silu": "a run finds nothing of the run before",
    "bad/neighbour_buffer_read_silu": "megabytes away lies this process's own memory",
}
ALWAYS = {  # holes that the corpus found: -0 never met -0, and no row was as low as a mask makes it
    "bad/negative_zero_add",
    "bad/finite_lowest_softmax",
}
SAMPLE = 20  # of good files, and of bad ones
SEED = int(os.environ.get("KF_SEED", "1"))
FILES = [read(p) for p in sorted(CORPUS.glob("*/*.cu"))]


def test_every_file_is_for_a_call_that_there_is() -> None:
    missing = {f.name: f.header["call"] for f in FILES if f.header["call"] not in CALLS}
    assert not missing
    kinds = {f.header["kind"] for f in FILES if not f.good}
    count = sum(not f.good for f in FILES)
    assert count >= 190 and len(FILES) - count >= 100 and len(kinds) >= 70, (count, len(FILES), len(kinds))


def _shown(file: File) -> bool:
    return (
        not file.header["call"].endswith("_large")
        and (file.good or file.gate in GATES)
        and file.name not in NOT_SHOWN
    )


def _sample() -> list[File]:
    shown = [f for f in FILES if _shown(f)]
    if os.environ.get("KF_REDTEAM") == "all":
        return shown
    chance = random.Random(SEED)
    drawn = [f for good in (True, False) for f in chance.sample([f for f in shown if f.good == good], SAMPLE)]
    return drawn + [f for f in shown if f.name in ALWAYS and f not in drawn]


def _judged(files: Sequence[File]) -> list[dict[str, str]]:
    command = [sys.executable, str(Path(__file__).with_name("redteam_blocks.py"))]
    command += [str(CORPUS / f"{f.name}.cu") for f in files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_right_kernels_pass_and_wrong_ones_fail_on_the_cpu() -> None:
    files = sorted(_sample(), key=lambda f: f.header["call"])  # files of one call share their references
    with ThreadPoolExecutor(2) as pool:
        halves = (files[: len(files) // 2], files[len(files) // 2 :])
        ends = {d["name"]: d for half in pool.map(_judged, halves) for d in half}
    assert ends.keys() == {f.name for f in files}
    unlike = [
        f"{f.name}: {ends[f.name]} (expected {'ok' if f.good else f.header['dies']})"
        for f in files
        if ends[f.name]["status"] not in (["ok"] if f.good else f.header["dies"].split(", "))
    ]
    assert not unlike, "\n".join([f"KF_SEED={SEED}", *unlike])


def test_the_file_of_the_floor_is_right_where_outputs_hold_poison_and_does_nothing_on_new_memory() -> None:
    """Its own call is larger than a device's cache; what it looks at is the same here. Whether the clock finds it is seen on a device."""
    (file,) = [f for f in FILES if f.gate == "floor"]
    judged = Judged("relu_fp32_odd")
    objects = blocks.compile_all([file.candidate])
    assert judge(judged, file.candidate, objects) == ("ok", "")
    for _, tensors, bounds in judged.cases[:2]:
        (out,) = blocks.launch(file.candidate, objects, judged.call, tensors, poison=0)
        assert not out.any() and bounds[0].compare(out).status != "ok"
