"""The judge's gates on a device: what only they kill, of the red-team corpus."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelforge import _needs
from kernelforge._place import Place
from kernelforge.redteam import redteam

pytestmark = pytest.mark.usefixtures("gpu")


def _files(only: str, *off: str) -> list[dict[str, Any]]:
    place = Place(torch.cuda.current_device())
    return list(redteam("cuda", only=only, off=off, place=place, progress=False)["files"])


def _judged(only: str) -> dict[str, str]:
    return {f["name"]: f["status"] for f in _files(only)}


@pytest.mark.parametrize("only", ["uninitialised_shared", "uninitialised_workspace"])
def test_what_reads_before_it_writes_dies_of_the_dirt(only: str) -> None:
    found = _judged(only)
    assert found and all(status != "ok" for status in found.values()), found


def test_images_with_more_than_the_spec_or_with_state_are_refused() -> None:
    for only in ("extra_entry", "counts_calls", "cache_by_address"):
        found = _judged(only)
        assert found and all(status != "ok" for status in found.values()), (only, found)
    # With the gate off the worker runs it to the end, and the user's process, which no test can tell to look away, refuses to load it.
    [survived] = _files("extra_entry", "image")
    assert survived["killed_by"] == "timing" and "in the user's process: make a plan" in survived["detail"], (
        survived
    )


@pytest.mark.skipif(_needs.sanitizer() is None, reason="no compute-sanitizer on this machine")
def test_the_sanitizer_finds_a_missing_barrier() -> None:
    found = _judged("missing_barrier")
    assert found and all(status != "ok" for status in found.values()), found
