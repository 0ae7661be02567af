"""A failing node leaves its study as a folder that fails again, alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from calling import call_of
from kernelforge import _core, _ext, _needs, _pack, _repro, _search, _studies
from kernelforge._place import HOST
from kernelforge._progress import Progress
from kernelforge.cli import main
from kernelforge.errors import UsageFault
from kernelforge.referee import Referee

_SIZES = (48, 41)
_CARD = "c-0a0b0c0d"


def _kernel(body: str) -> str:
    return (
        "KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {\n"
        "  const float* x = (const float*)args[0].p;\n  float* y = (float*)args[1].p;\n  const int64_t n = args[2].i;\n"
        "  (void)n;\n  for (int64_t i = begin; i < end; ++i) { " + body + " }\n}\n"
    )


_RELU = "y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;"
# status: (source, a part of the detail)
_FAILING = {
    "wrong_value": (_kernel("if (i + 1 < n) " + _RELU), "run 1"),
    "crash": (
        _kernel(_RELU + " if (i == n - 1) *(volatile float*)(y + i + 1) = 0;"),
        "past the end of `out0`",
    ),
    "timeout": (_kernel("for (volatile int k = 0;; ++k) {}"), "killed"),
    "rejected": ("static int calls;\n" + _kernel("y[i] = ++calls > 100 ? 0.0f : x[i];"), "writable"),
    "compile_error": (_kernel("y[i] = undeclared;"), "undeclared"),
}


def _candidate(source: str) -> dict[str, Any]:
    spec = {
        "schema": 1,
        "constants": {},
        "workspaces": [],
        "kernels": [
            {
                "entry": "kf_main",
                "work": "out0_numel",
                "grain": "256",
                "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel"}],
            }
        ],
    }
    return {
        "id": "",
        "author": "person",
        "family": "",
        "params": {},
        "change": "",
        "source": source,
        "spec": spec,
    }


class _Study:
    """A store with one study whose candidates were given."""

    def __init__(self, folder: Path) -> None:
        self.store = str(folder / "kernelforge.db")
        secret = torch.full(_SIZES, 77.25)  # captured data: no byte of it may be in a reproduction
        secret[::2] = -3.5
        self.card = {
            "schema": 1,
            "id": _CARD,
            "target": "host",
            "overload": "aten::relu",
            "layout": "contiguous",
            "threads": torch.get_num_threads(),
            "share": 0.5,
            "children": [],
            "variants": [
                {
                    "id": "v0",
                    "call": call_of("aten::relu", [secret]),
                    "calls": 1,
                    "eager_us": 200.0,
                    "bytes": 8 * secret.numel(),
                    "roof_us": 1.0,
                }
            ],
        }
        self.cards = [self.card]
        self._payload = [secret]
        _ext.load()
        with torch.no_grad(), _pack.disabled():
            session = _search.opened(
                "red",
                "study.start",
                store=self.store,
                study="red",
                target="host",
                model="net",
                cards=self.cards,
                pins={},
                candidates=[_candidate(source) for source, _ in _FAILING.values()],
                settings={
                    "seed": 11,
                    "candidates": len(_FAILING),
                    "min_gain": 0,
                    "worker": str(_core.WORKER),
                    "runtime": str(_core.RUNTIME),
                    "scratch": str(folder),
                    **_needs.tools(HOST, _needs.compiler(HOST)),
                },
            )
            with session, Referee(self, seed=0) as referee:
                _search.drive("red", referee.execute, Progress(False))

    def payload(self, card: str, variant: str) -> list[Any] | None:
        return self._payload

    def align(self, card: str, variant: str) -> list[int]:
        return []


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> _Study:
    return _Study(tmp_path_factory.mktemp("repro"))


def _node(study: _Study, status: str) -> int:
    nodes = _studies.load("red", study.store)["runs"][0]["nodes"]
    found = [n["node"] for n in nodes if n["status"] == status]
    assert len(found) == 1, [(n["node"], n["status"]) for n in nodes]
    return int(found[0])


@pytest.mark.parametrize("status", _FAILING)
def test_the_folder_fails_again_as_the_study_saw_it(study: _Study, status: str, tmp_path: Path) -> None:
    folder = tmp_path / "it"
    about = _repro.write("red", _CARD, _node(study, status), study.store, folder)
    was = about["verdict"]
    assert was["status"] == status and _FAILING[status][1] in was["detail"] and was["gate"], was
    assert (
        ("at" in was) == (status not in ("rejected", "compile_error"))
        or "load" in was["detail"]
        or was["gate"] == "image"
    )
    now = _repro.run(folder)
    assert (now["status"], now["gate"]) == (status, was["gate"]), now
    assert _FAILING[status][1] in now["detail"], now


def test_the_script_runs_alone_and_the_input_is_not_the_captured_one(study: _Study, tmp_path: Path) -> None:
    code = main(
        ["repro", str(_node(study, "wrong_value")), "-o", str(tmp_path / "it"), "--store", study.store]
    )
    assert code == 0
    folder = tmp_path / "it"
    said = json.loads((folder / "case.json").read_text())
    assert "does not leave" in said["inputs"] and said["verdict"]["at"]["kind"] == "captured"
    header = json.loads((folder / "inputs" / "inputs.json").read_text())
    assert header == [
        {"file": "0-self.bin", "dtype": "float32", "sizes": list(_SIZES), "strides": [_SIZES[1], 1]}
    ]
    raw = (folder / "inputs" / "0-self.bin").read_bytes()
    assert len(raw) == 4 * _SIZES[0] * _SIZES[1]
    values = torch.frombuffer(bytearray(raw), dtype=torch.float32)
    assert not bool((values == 77.25).all()) and len(values.unique()) > 100  # drawn, not copied
    assert "wrong_value" in (folder / "README.md").read_text()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KERNELFORGE_STORE")}
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "now:      wrong_value" in done.stdout, done.stdout


def test_eager_itself_a_used_folder_and_a_damaged_one_are_errors(study: _Study, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="eager itself"):
        _repro.write("red", _CARD, 0, study.store, tmp_path / "root")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageFault, match="something is there"):
        _repro.write("red", _CARD, 1, study.store, tmp_path)
    with pytest.raises(UsageFault, match="no folder"):
        _repro.run(tmp_path)
    folder = tmp_path / "cut"
    _repro.write("red", _CARD, _node(study, "wrong_value"), study.store, folder)
    (folder / "inputs" / "0-self.bin").write_bytes(b"1234")
    with pytest.raises(UsageFault, match="4 bytes"):
        _repro.run(folder)
