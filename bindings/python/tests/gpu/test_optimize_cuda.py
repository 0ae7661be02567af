"""`optimize` on a device, from profile to served pack: a small model, real NVRTC, real worker; then pack, verify, graphs, command line, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelforge
from device_worker import PLACE
from kernelforge import _core, _ext, _needs, _nvrtc, _pack, _pins, _studies
from kernelforge._rebuild import rebuild
from kernelforge._seal import seal
from kernelforge.errors import EnvironmentFault, PackFault
from on_cuda import need_gpu
from small_net import command

NET = '''
import torch

class Net(torch.nn.Module):
    """One convolution, and operators whose eager kernels leave room: a group norm over few groups, and a pool."""
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(4, 64, 3, padding=1)
        self.norm = torch.nn.GroupNorm(32, 64)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)

    def forward(self, x):
        x = torch.nn.functional.silu(self.norm(self.first(x)))
        return self.pool(x).mean((2, 3))

def make(batch=1, dtype=torch.bfloat16, device="cuda"):
    torch.manual_seed(0)
    return Net().eval().to(device, dtype), (torch.randn(batch, 4, 512, 512).to(device, dtype),)
'''


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    need_gpu()
    scope: dict[str, Any] = {"__name__": "net"}
    exec(NET, scope)
    made: tuple[Any, Any] = scope["make"]()
    return made


@pytest.fixture(scope="module")
def optimized(made: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """One search for all tests of this module: (report, home)."""
    for path in (_core.LIBRARY, _core.WORKER, _core.RUNTIME):
        if not path.exists():
            pytest.skip(f"{path.name} is not built")
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELFORGE_HOME", str(home))
    with torch.no_grad():
        kernelforge.optimize(
            *made, candidates=6, max_seconds=240, min_share=0.02, name="small", study="small"
        )
    yield kernelforge.report(made[0]).to_dict(), home
    patch.undo()
    kernelforge.restore()


def told(report: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in report.items() if k != "tree"}, indent=1)[:9000]


def test_a_search_ends_with_winners_that_serve(optimized: tuple[Any, Any]) -> None:
    report, _ = optimized
    print(told(report))
    rows = {r["op"]: r for r in report["rows"]}
    norm = rows["aten::native_group_norm"]
    assert norm["verdicts"], f"the group norm was not searched: {told(report)}"
    assert norm["served"], f"no winner for the group norm: {told(report)}"
    assert norm["low"] > 1.0
    assert report["model"]["ratio"] is not None and report["model"]["low"] > 1.0, report["model"]
    assert report["model"]["graph_ratio"] is not None, report["model"]
    assert report["outputs"]["status"] == "ok"
    assert report["attributed"] >= 0.95 and report["timed_by"] == "cupti", told(report)
    bad = {
        s: n
        for r in report["rows"]
        for s, n in r["verdicts"].items()
        if s in ("crash", "timeout", "compile_error")
    }
    assert not bad, f"templates that do not run: {bad}\n{told(report)}"


@pytest.mark.skipif(_needs.sanitizer() is None, reason="no compute-sanitizer on this machine")
def test_winners_were_clean_under_the_sanitizer_or_it_says_what_does_not_work(
    optimized: tuple[Any, Any],
) -> None:
    report, _ = optimized
    runs = _studies.load("small", report["store"])["runs"]
    told = [
        c["detail"].partition("compute-sanitizer: ")[2] for r in runs for c in r["confirmed"] if c["accepted"]
    ]
    assert told and all(words.startswith("memcheck, racecheck") for words in told), told
    assert not any("could not be run" in words for words in told), told


def test_the_pack_names_what_it_was_judged_on(optimized: tuple[Any, Any]) -> None:
    report, _ = optimized
    document = _pack.read(report["pack"])
    assert document["target"] == "cuda"
    assert set(document["pins"]) == {"torch", "device", "driver", "runtime", "toolchain"}, document["pins"]
    assert document["pins"]["toolchain"] == _nvrtc.toolchain() and document["pins"]["toolchain"].startswith(
        "nvrtc "
    )
    assert document["pins"] == _pins.pins(_ext.load().abi(), place=PLACE)
    code = sorted(p.suffix for p in (Path(report["pack"]) / "code").iterdir())
    assert set(code) == {".cubin"}, code


def test_the_code_of_the_pack_is_that_of_its_sources(optimized: tuple[Any, Any]) -> None:
    """The same NVRTC makes the same cubin, to the bit."""
    report, _ = optimized
    folder = Path(report["pack"])
    document = _pack.read(folder)
    found = rebuild(folder, document, PLACE, document["pins"])
    assert {p["status"] for p in found["plans"]} == {"equal"}, found


def test_what_serves_is_what_explain_says(made: tuple[Any, Any], optimized: tuple[Any, Any]) -> None:
    report, _ = optimized
    kernelforge.apply(report["pack"])
    with torch.no_grad():
        explanation = kernelforge.explain(*made)
    print(explanation)
    served = {s["overload"] for s in explanation.sites if s["plan"]}
    assert "aten::native_group_norm" in served, str(explanation)


def test_a_captured_model_replays_the_served_kernels_bit_for_bit(
    made: tuple[Any, Any], optimized: tuple[Any, Any]
) -> None:
    report, _ = optimized
    kernelforge.apply(report["pack"])
    model, (x,) = made
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.no_grad():
        direct = model(x).clone()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            captured = model(x)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(captured, direct)
        with kernelforge.disabled():
            eager = model(x)
    print("largest difference from eager:", float((direct - eager).abs().max()))


def test_a_fresh_process_serves_the_pack_and_judges_it_again(optimized: tuple[Any, Any]) -> None:
    report, _ = optimized
    found = kernelforge.verify(report["pack"], blocks=12)
    assert found["passed"], json.dumps(found, indent=1)
    assert found["pins"] == {}, found["pins"]


def test_the_same_call_answers_from_the_finished_study(
    made: tuple[Any, Any], optimized: tuple[Any, Any]
) -> None:
    asked = {"candidates": 6, "max_seconds": 240, "min_share": 0.02, "name": "small", "study": "small"}
    with torch.no_grad():
        kernelforge.optimize(*made, store=optimized[0]["store"], **asked)
    assert kernelforge.report(made[0]).to_dict()["reused"]


@pytest.mark.parametrize(
    ("pin", "value", "words"),
    [
        ("device", "NVIDIA A100-SXM4-80GB", "runs on its architecture only"),
        ("driver", "1.2", "kernelforge verify"),
    ],
)
def test_a_pack_of_another_machine_is_one_clear_error(
    optimized: tuple[Any, Any], tmp_path: Path, pin: str, value: str, words: str
) -> None:
    import shutil

    report, _ = optimized
    other = tmp_path / "pack"
    shutil.copytree(report["pack"], other)
    document = json.loads((other / "pack.json").read_text())
    document["pins"][pin] = value
    (other / "pack.json").write_text(seal(document))
    with pytest.raises(PackFault, match=f"judged with {pin} `{value}`") as e:
        kernelforge.apply(other)
    assert words in e.value.hint


def test_a_process_that_sees_no_device_says_so(optimized: tuple[Any, Any]) -> None:
    report, _ = optimized
    code = f"import kernelforge; kernelforge.apply({report['pack']!r})"
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(kernelforge.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "does not have a CUDA device" in done.stderr, done.stderr
    assert "CUDA_VISIBLE_DEVICES" in done.stderr


def test_no_nvrtc_is_told_before_anything_is_measured(
    made: tuple[Any, Any], optimized: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNELFORGE_NVRTC", str(tmp_path / "libnvrtc.so"))
    with pytest.raises(EnvironmentFault, match="no NVRTC that can be loaded") as e:
        kernelforge.optimize(*made, study="never")
    assert "KERNELFORGE_NVRTC" in e.value.hint


def test_the_doctor_finds_what_a_search_needs() -> None:
    done = command("doctor", "--json")
    print(done.stdout, done.stderr)
    data = json.loads(done.stdout)
    checks = {c["name"]: c for c in data["checks"]}
    for name in ("gpu", "cuda driver", "nvrtc", "sharing"):
        assert name in checks, sorted(checks)
        assert checks[name]["ok"] is not False, checks[name]
    assert data["uses"]["optimize on cuda"]["works"], data["uses"]


def test_the_command_line_profiles_and_explains_on_the_device(
    optimized: tuple[Any, Any], tmp_path: Path
) -> None:
    report, home = optimized
    file = tmp_path / "net.py"
    file.write_text(NET)
    env = {"KERNELFORGE_HOME": str(home)}
    done = command("profile", f"{file}:make", "--device", "cuda", "--dtype", "bf16", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == "cuda"
    done = command(
        "explain", f"{file}:make", "--device", "cuda", "--dtype", "bf16", "--pack", report["pack"], env=env
    )
    assert done.returncode == 0, done.stderr
    assert "plan p-" in done.stdout, done.stdout
    done = command("profile", f"{file}:make", "--device", "cuda:63", env=env)
    assert done.returncode == 5 and "use the device `cuda:63`" in done.stderr, done.stderr


@pytest.mark.parametrize("way", ["ipc", "copy"])
def test_a_search_works_where_virtual_memory_cannot_be_shared(tmp_path: Path, way: str) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET)
    env = {"KERNELFORGE_HOME": str(tmp_path / "home"), "KERNELFORGE_BUFFERS": way}
    options = ["--device", "cuda", "--candidates", "2", "--ops", "max_pool2d*", "--json"]
    done = command("optimize", f"{file}:make", *options, env=env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (row,) = [r for r in report["rows"] if "max_pool2d" in r["op"]]
    assert set(row["verdicts"]) == {"ok"}, row
    assert row["served"], row
