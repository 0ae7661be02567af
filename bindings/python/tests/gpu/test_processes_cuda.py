"""Processes: allocator settings that are read at the start of one, and workers forked beside plans for CUDA."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from serving import fallbacks, hits, serving

TESTS = Path(__file__).resolve().parents[1]

SCRIPT = """
import torch
torch.set_default_device("cuda")
from on_cuda import on_cuda
from serving import eager, fallbacks, hits, serving
modes = on_cuda("test_modes", {})
X = modes["X"]
with torch.no_grad():
    for name, (function, overload, exact) in sorted(modes["FUNCTIONS"].items()):
        with serving(lambda: function(X), only=overload):
            with eager():
                expected = function(X)
            for _ in range(3):
                got = function(X)
            assert hits(overload) == 3, (name, fallbacks(overload))
            modes["agree"](got, expected, exact)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = function(X)
            graph.replay()
            assert torch.equal(out, got), name
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                again = function(X)
            side.synchronize()
            assert torch.equal(again, got), name
            assert hits(overload) == 5, (name, fallbacks(overload))
backend = torch.cuda.get_allocator_backend()
print(backend, sorted({s.get("is_expandable") for s in torch.cuda.memory_snapshot()}) if backend == "native" else "")
"""


ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def run(script, **environment):
    path = os.pathsep.join([str(TESTS), str(TESTS / "gpu"), *(p for p in sys.path if p)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k not in ALLOCATOR} | {"PYTHONPATH": path} | environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("variable", ALLOCATOR)
def test_expandable_segments(variable):
    """Memory is driver virtual memory that grows; plans, graphs and side streams work as before."""
    told = run(SCRIPT, **{variable: "expandable_segments:True"})
    assert "True" in told, f"{variable} was not heeded: segments are expandable: {told}"


def test_the_drivers_asynchronous_allocator():
    assert "cudaMallocAsync" in run(SCRIPT, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")


class Relus(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        made = torch.relu(torch.arange(24.0).view(4, 6) - index)
        return made, hits("aten::relu"), fallbacks("aten::relu")


def test_workers_forked_beside_plans_for_cuda_run_on_eager():
    x = torch.randn(4, 6, device="cuda")
    with torch.no_grad(), serving(lambda: torch.relu(x), only="aten::relu"):
        loader = torch.utils.data.DataLoader(
            Relus(), batch_size=None, num_workers=2, multiprocessing_context="fork"
        )
        for index, (got, served, reasons) in enumerate(loader):
            assert torch.equal(got, (torch.arange(24.0).view(4, 6) - index).clamp(min=0))
            assert (served, reasons) == (0, {})
        assert torch.equal(torch.relu(x), x.clamp(min=0))
        assert hits("aten::relu") == 1


def test_a_plan_is_opened_before_torch_has_used_cuda():
    """The runtime makes the primary context; torch finds it and shares it."""
    told = run(
        """
        import torch
        from kernelforge import _ext
        module = _ext.load()
        assert not torch.cuda.is_initialized()
        info = module.device_info(0)
        buffer = module.Buffer(4096, 0)
        t = buffer.tensor(0, torch.float32, [8], [1])
        y = torch.relu(t + 1) * torch.ones(8, device="cuda")
        print(info["name"] == torch.cuda.get_device_name(0), y.sum().item())
        """
    )
    assert told == "True 8.0"


def test_importing_opens_no_driver():
    told = run(
        """
        import torch
        before = open("/proc/self/maps").read().count("libcuda.so")
        from kernelforge import _ext
        _ext.load()
        print(open("/proc/self/maps").read().count("libcuda.so") - before, torch.cuda.is_initialized())
        """
    )
    assert told == "0 False"
