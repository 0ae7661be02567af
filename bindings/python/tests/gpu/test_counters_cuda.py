"""Hardware counters of a parent on a device: a template's node, run once in a worker below Nsight Compute's real ncu, and what its brief says then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelforge
from kernelforge import _core, _needs
from on_cuda import need_gpu

SHAPE = (
    4096,
    8192,
)  # float32: 134 MB, far beyond any cache, in rows for which eager takes twice a copy's time
_REFUSED = (
    "ERR_NVGPUCTRPERM",
    "LibraryNotLoaded",
)  # by the driver, by a virtual machine: not this project's to mend

pytestmark = pytest.mark.skipif(
    _needs.ncu() in (None, _needs.NO_COUNTERS), reason="no ncu on this machine, or KERNELFORGE_NCU=off"
)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """A model whose softmax templates searched; what an author beside them was told is in the second."""
    need_gpu()
    for path in (_core.LIBRARY, _core.WORKER, _core.RUNTIME):
        if not path.exists():
            pytest.skip(f"{path.name} is not built")
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELFORGE_HOME", str(tmp_path_factory.mktemp("home")))
    briefs: list[dict[str, Any]] = []

    def listens(brief: dict[str, Any]) -> None:
        briefs.append(brief)

    made = (torch.nn.Softmax(-1).cuda(), (torch.randn(SHAPE, device="cuda"),))
    with torch.no_grad():
        kernelforge.optimize(
            *made, ops="_softmax", candidates=5, authors=[listens], study="counted", processes=0
        )
    yield made, briefs
    patch.undo()
    kernelforge.restore()


def _there(parent: dict[str, Any]) -> dict[str, float]:
    """Return the counters of a parent's only kernel, or skip where this machine gives none."""
    found = parent["counters"]
    if any(word in found.get("why", "") for word in _REFUSED):
        pytest.skip(f"this machine gives no counters: {found['why']}")
    print("\n".join([f"node {parent['node']}, cost {parent['cost']:.3f}", *parent["counted"]]))
    assert found.get("kernels"), found
    return dict(found["kernels"][0]["values"])


def test_the_brief_below_a_templates_node_has_its_counters(searched: tuple[Any, Any]) -> None:
    made, _ = searched
    with torch.no_grad(), kernelforge.Study(*made, ops="_softmax", study="counted", processes=0) as study:
        [card] = study.cards()
        brief = study.ask(card["card"], parent=card["best_node"])
        values = _there(brief["parent"])
        again = study.ask(card["card"], parent=card["best_node"])
        study.close(serve=False)
    assert again["parent"]["counters"] == brief["parent"]["counters"], "they are read once"
    assert values["ns"] > 10_000, values  # 268 MB at 4.8 TB/s are 56 us; a launch that did nothing would be 2
    assert 5 < values["dram_pct"] <= 105, values
    assert values["dram_bytes"] > 0.5 * torch.Size(SHAPE).numel() * 4, values  # what is read comes from DRAM
    missing = {
        "memory_pct",
        "sm_pct",
        "l2_hit_pct",
        "warps_pct",
        "issue_pct",
        "xu_pct",
        "waves",
        "cycles_per_issue",
    }
    assert not missing - values.keys(), missing - values.keys()
    assert sum(v for name, v in values.items() if name.startswith("stall_")) > 0, values
    assert "bound by " in brief["text"] and "hardware counters (ncu" in brief["text"], brief["text"]


def test_an_author_in_the_search_is_told_them(searched: tuple[Any, Any]) -> None:
    _, briefs = searched
    below = [b["parent"] for b in briefs if b["parent"]["node"] > 0]
    if not below:
        pytest.skip("the search asked its author below eager alone")
    assert _there(below[0])["ns"] > 0


def _asked_anew(made: tuple[Any, Any]) -> dict[str, Any]:
    """Return the parent of a brief below a node that nobody asked about: the best one's code once more."""
    with torch.no_grad(), kernelforge.Study(*made, ops="_softmax", study="counted", processes=0) as study:
        [card] = study.cards()
        best = card["best_node"]
        parent = study.ask(card["card"], parent=best)["parent"]
        answer = study.tell(
            card["card"], parent["source"] + f"// {card['nodes']}\n", parent["spec"], parent=best
        )
        assert answer["verdict"]["status"] == "ok", answer
        told = study.ask(card["card"], parent=answer["node"])
        study.close(serve=False)
    return dict(told["parent"])


def test_an_open_study_reads_them_when_a_brief_is_asked_for(searched: tuple[Any, Any]) -> None:
    assert _there(_asked_anew(searched[0]))["ns"] > 10_000


def test_who_does_not_want_them_is_told_so(
    searched: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELFORGE_NCU", _needs.NO_COUNTERS)
    assert _asked_anew(searched[0])["counted"] == ["no hardware counters: they are switched off"]


def test_a_program_that_is_no_ncu_is_told_and_nothing_else_changes(
    searched: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "ncu"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o700)
    monkeypatch.setenv("KERNELFORGE_NCU", str(fake))
    [told] = _asked_anew(searched[0])["counted"]
    assert told.startswith("no hardware counters: it could not be run under ncu"), told
