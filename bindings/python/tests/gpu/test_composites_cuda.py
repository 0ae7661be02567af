"""The composite `group_norm`, hooked before torch 2.14 for channels_last on CUDA, which it copies to planes: served whole under inference_mode, and
everywhere else what torch does without hooks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import kernelforge
from handmade import record
from on_cuda import need_gpu
from serving import close, eager, ext, fallbacks, hits, plans_for, published

COMPOSITE, LEAF = "aten::group_norm", "aten::native_group_norm"
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def hooked():
    need_gpu()
    if COMPOSITE not in ext().install()["hooked"]:
        pytest.skip(f"torch {torch.__version__} takes channels_last in `native_group_norm`, which is hooked")


def image(*sizes):
    x = torch.randn(sizes or (2, 16, 9, 8), device="cuda")
    return x.to(memory_format=torch.channels_last_3d if len(sizes) == 5 else torch.channels_last)


WEIGHT, BIAS = torch.linspace(0.5, 1.5, 16), torch.linspace(-1, 1, 16)


def norm(x):
    return F.group_norm(x, 4, WEIGHT.to(x.device), BIAS.to(x.device))


def plans_of(call):
    """A plan for the composite alone."""
    with torch.inference_mode():
        return plans_for(call, only=COMPOSITE)


@pytest.mark.parametrize("sizes", [(2, 16, 9, 8), (1, 16, 1, 5), (2, 16, 3, 4, 5)])
@pytest.mark.parametrize("call", [norm, lambda x: F.group_norm(x, 4)], ids=["affine", "plain"])
def test_served_without_a_copy_under_inference_mode(sizes, call):
    x = image(*sizes)
    with published(plans_of(lambda: call(x))), torch.inference_mode():
        with eager():
            expected = call(x)
        got = call(x)
        assert (hits(COMPOSITE), hits(LEAF)) == (1, 0)
        assert fallbacks(COMPOSITE) == {}
    assert got.is_contiguous() and got.stride() == expected.stride() and got.is_inference()
    close(got, expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.contiguous(),
        lambda x: x[..., ::2],
        lambda x: x[:, :, :1, :1].contiguous(),
        lambda x: x.flatten(2),
        lambda x: x.cpu(),
    ],
    ids=["planes", "parts", "pixels", "rows", "host"],
)
def test_what_is_not_channels_last_passes_as_if_there_were_no_hook(change):
    x = image()
    other = change(x)
    with torch.inference_mode():
        overloads = [r["overload"] for r in record(lambda: norm(other))]
        assert LEAF in overloads and COMPOSITE not in overloads
        with published(plans_of(lambda: norm(x))):
            with eager():
                expected = norm(other)
            ext().trace_begin()
            got = norm(other)
            assert COMPOSITE not in {t["overload"] for t in ext().trace_end()}
            assert hits(COMPOSITE) == 0 and fallbacks(COMPOSITE) == {}
    assert torch.equal(got, expected) and got.stride() == expected.stride()


def test_the_leafs_plan_serves_planes_beside_the_composites():
    x = image()
    planes = x.contiguous()
    with torch.inference_mode():
        plans = plans_for(lambda: norm(planes), only=LEAF)
    with published(plans + plans_of(lambda: norm(x))), torch.inference_mode():
        a, b = norm(planes), norm(x)
        assert (hits(COMPOSITE), hits(LEAF)) == (1, 1)
        c = norm(image(3, 16, 9, 8))  # no plan is for it
        assert fallbacks(COMPOSITE) == {"no_match": 1} and c.is_contiguous()
    close(a, b)


@pytest.mark.parametrize("guard", [torch.enable_grad, torch.no_grad])
def test_not_reached_with_autograds_keys(guard):
    x = image().requires_grad_()
    with published(plans_of(lambda: norm(x.detach()))), guard():
        out = norm(x)
        assert hits(COMPOSITE) == 0 and fallbacks(COMPOSITE) == {}
    assert out.requires_grad == (guard is torch.enable_grad)


def test_captured_once_as_the_composite():
    x = image()
    with torch.inference_mode():
        (r,) = record(lambda: F.group_norm(x, 4))
    assert r["overload"] == COMPOSITE and r["composite"]
    assert set(r["children"]) == {"aten::copy_", LEAF}


def test_the_judges_calls_reach_the_hook_under_no_grad():
    x = image()
    arguments = [x, 4, None, None, 1e-5, True]
    with published(plans_of(lambda: F.group_norm(x, 4))):
        with torch.no_grad():
            (out,) = ext().call(COMPOSITE, arguments)
            assert hits(COMPOSITE) == 1
        close(out, F.group_norm(x, 4))


def test_every_mode_of_torch_says_the_same_with_hooks_and_plans():
    """The probes of composite_probes.py, made on CUDA: values, strides, kinds of tensors, names of gradients, graphs, traces, errors."""
    paths = os.pathsep.join([str(Path(kernelforge.__file__).parents[1]), str(TESTS)])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def run(*argv):
        done = subprocess.run(
            [sys.executable, str(TESTS / "composite_probes.py"), "cuda", *argv],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    bare, planned = run(), run("plans")
    assert bare.keys() == planned.keys() and len(bare) > 100
    differs = {k for k in bare if bare[k] != planned[k]}
    # Where a plan serves, what eager calls inside does not run.
    assert differs <= {k for k in bare if k.endswith(": profiler")}
    assert COMPOSITE in planned["group_norm, inference: profiler"]
    assert LEAF not in planned["group_norm, inference: profiler"]


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.GroupNorm(32, 128)

    def forward(self, x):
        return self.norm(torch.nn.functional.silu(x))

def make():
    torch.manual_seed(0)
    x = torch.randn(1, 128, 512, 512).to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    return Net().eval().to("cuda", torch.bfloat16), (x,)
"""


def test_a_model_under_inference_mode_is_served_by_lines(surely_faster, clean):
    scope = {"__name__": "net"}
    exec(NET, scope)
    model, inputs = scope["make"]()
    with torch.inference_mode():
        kernelforge.optimize(model, inputs, candidates=4, ops="group_norm", min_share=0.0, progress=False)
        data = kernelforge.report().to_dict()
        (row,) = (r for r in data["rows"] if r["op"] == COMPOSITE)
        assert row["served"], row
        kernelforge.stats(reset=True)
        got = model(*inputs)
        assert kernelforge.stats()["ops"][COMPOSITE] == {"hits": 1, "fallbacks": {}}
        with kernelforge.disabled():
            expected = model(*inputs)
    assert got.stride() == expected.stride() == torch.empty(got.shape, device="meta").stride()
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
