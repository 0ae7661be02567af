"""Composites that are hooked: served where autograd records nothing, and everywhere else exactly what torch does without hooks."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import kernelforge
from handmade import record
from serving import close, eager, ext, fallbacks, hits, plans_for, published

X = torch.randn(2, 4, 9, 8)
COMPOSITE, LEAF = "aten::max_pool2d", "aten::max_pool2d_with_indices"


def pool(x):
    return F.max_pool2d(x, 3, 2)


def plans_of(call):
    """A plan for the composite alone."""
    with torch.inference_mode():
        return plans_for(call, only=COMPOSITE)


# ---- nothing changes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers():
    """What the probes say without hooks, and with hooks and plans."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(Path(kernelforge.__file__).parents[1]), str(here)])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def run(*argv):
        done = subprocess.run(
            [sys.executable, str(here / "composite_probes.py"), *argv],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    with ThreadPoolExecutor(2) as both:
        return tuple(both.map(lambda argv: run(*argv), ((), ("plans",))))


def test_every_mode_of_torch_says_the_same_with_hooks_and_plans(answers):
    """Values, strides, views, kinds of tensors, names of gradients, graphs, traces, errors, and the table of keys."""
    bare, planned = answers
    assert bare.keys() == planned.keys() and len(bare) > 200
    served = {"max_pool2d, inference: profiler"}  # the leaf does not run
    # The plan of a group norm's leaf serves: nothing is allocated inside it.
    served |= {f"group_norm, {mode}: profiler" for mode in ("grad", "no_grad", "inference")}
    assert {k: v for k, v in planned.items() if k not in served} == {
        k: v for k, v in bare.items() if k not in served
    }


def test_the_profiler_names_the_composite_that_is_served(answers):
    bare, planned = answers
    assert bare["max_pool2d, inference: profiler"] == ["aten::max_pool2d", "aten::max_pool2d_with_indices"]
    assert planned["max_pool2d, inference: profiler"] == ["aten::max_pool2d"]


def test_gradients_of_the_probes_are_recorded_under_grad_and_refused_under_inference_mode(answers):
    _, planned = answers
    out, first, second = planned["max_pool2d, grad: gradients"]
    assert "MaxPool2DWithIndicesBackward0" in out and "True" in first
    assert "None" in second  # of a piecewise linear function's square: a gradient of its own, without a graph
    assert "does not require grad" in planned["max_pool2d, inference: gradients"]


# ---- where it is served ---------------------------------------------------------------------------------------------


def test_served_without_its_leaf_under_inference_mode():
    with published(plans_of(lambda: pool(X))), torch.inference_mode():
        with eager():
            expected = pool(X)
        got = pool(X)
        assert (hits(COMPOSITE), hits(LEAF)) == (1, 0)
        assert fallbacks(LEAF) == {}
    assert torch.equal(got, expected)
    assert got.stride() == expected.stride() and got.is_inference()


@pytest.mark.parametrize("guard", [torch.enable_grad, torch.no_grad])
def test_not_reached_with_autograds_keys(guard):
    """Also where grad mode is off: a tensor has the keys all the same, and the composite dissolves above its hook."""
    x = X.clone().requires_grad_()
    with published(plans_of(lambda: pool(X))), guard():
        out = pool(x)
        assert hits() == 0 and fallbacks(COMPOSITE) == {}
    assert out.requires_grad == (guard is torch.enable_grad)


def test_tensors_made_under_inference_mode_are_served_outside_with_ordinary_results():
    """They have no autograd keys, so eager records nothing of them either."""
    with torch.inference_mode():
        made = X * 1
    with published(plans_of(lambda: pool(X))):
        with eager():
            expected = pool(made)
        got = pool(made)
        assert hits(COMPOSITE) == 1
    assert torch.equal(got, expected)
    assert got.is_inference() == expected.is_inference() and got.requires_grad == expected.requires_grad


def test_plans_of_the_leaf_serve_where_the_composite_has_none():
    """A model that was optimised under no_grad runs as fast under inference_mode."""
    with torch.no_grad():
        plans = plans_for(lambda: pool(X), only=LEAF)
    with published(plans), torch.inference_mode():
        pool(X)
        assert hits(LEAF) == 1
    with published(plans + plans_of(lambda: pool(X[:1]))), torch.inference_mode():
        pool(X)  # the composite's plan is for another call
        assert fallbacks(COMPOSITE) == {"no_match": 1}
        assert hits(LEAF) == 1


def test_deterministic_algorithms_are_respected():
    with torch.inference_mode():
        (plan,) = plans_for(lambda: pool(X), only=COMPOSITE, deterministic=False)
    with published([plan]), torch.inference_mode():
        torch.use_deterministic_algorithms(True)
        try:
            pool(X)
        finally:
            torch.use_deterministic_algorithms(False)
        assert fallbacks(COMPOSITE) == {"deterministic": 1}


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_group_norm_passes_on_the_cpu_as_if_there_were_no_hook(memory_format):
    """Its leaf takes both there: no record and no trace of the composite, which would keep the leaf from being captured (whatever this torch hooks)."""
    x = X.to(memory_format=memory_format)
    with torch.inference_mode():
        assert [r["overload"] for r in record(lambda: F.group_norm(x, 2))] == ["aten::native_group_norm"]
        ext().trace_begin()
        F.group_norm(x, 2)
        assert [(t["overload"], t["depth"]) for t in ext().trace_end()] == [("aten::native_group_norm", 0)]
        with published(plans_for(lambda: F.group_norm(x, 2))):
            with eager():
                expected = F.group_norm(x, 2)
            close(F.group_norm(x, 2), expected)
            assert hits("aten::native_group_norm") == 1 and fallbacks("aten::group_norm") == {}


# ---- called by the judge --------------------------------------------------------------------------------------------


def test_the_judges_calls_reach_the_hook_under_no_grad():
    """The judge works under no_grad, where the composite would dissolve: its calls leave autograd's keys out."""
    arguments = [X, [3, 3], [2, 2], [0, 0], [1, 1], False]
    with published(plans_of(lambda: pool(X))):
        with torch.no_grad():
            (out,) = ext().call(COMPOSITE, arguments)
            ext().run_calls(COMPOSITE, [arguments], 3)
            ext().time_blocks(COMPOSITE, [arguments], blocks=1, inner=1)
            assert hits(COMPOSITE) > 4
        assert not out.is_inference()
        assert torch.equal(out, pool(X))
        ext().stats(reset=True)
        x = X.clone().requires_grad_()
        (out,) = ext().call(COMPOSITE, [x, *arguments[1:]])  # grad mode is on: it is recorded
        assert out.grad_fn is not None and hits() == 0


# ---- what is told of it ---------------------------------------------------------------------------------------------


def test_captured_once_as_the_composite():
    with torch.inference_mode():
        (r,) = record(lambda: pool(X))
    assert r["overload"] == COMPOSITE and r["composite"]
    assert r["children"] == [LEAF]


def test_profile_attributes_its_time_once():
    with torch.inference_mode():
        found = kernelforge.profile(lambda x: pool(torch.sigmoid(x)), (X,), forwards=3)
    pools = [r for r in found.rows if "max_pool2d" in r["op"]]
    assert [r["op"] for r in pools] == [COMPOSITE]
    assert pools[0]["children"] == [LEAF] and pools[0]["card"] is not None and pools[0]["hooked"]
    (card,) = (c for c in found.cards if c["overload"] == COMPOSITE)
    assert card["children"] == [LEAF]
    assert abs(sum(r["share"] for r in found.rows) - 1) < 1e-9


def test_explain_names_it():
    with published(plans_of(lambda: pool(X))), torch.inference_mode():
        (call,) = kernelforge.explain(pool, (X,)).to_dict()["calls"]
    assert call["overload"] == COMPOSITE and call["plan"] is not None


def test_a_model_under_inference_mode_is_searched_confirmed_and_reported_whole(net, clean, surely_faster):
    """Fresh processes serve under no_grad: the judge's calls there reach the composite's hook."""
    model, inputs = net
    with torch.inference_mode():
        kernelforge.optimize(
            model, inputs, candidates=1, ops="max_pool2d*", min_share=0.0, processes=1, progress=False
        )
        data = kernelforge.report().to_dict()
        (row,) = (r for r in data["rows"] if "max_pool2d" in r["op"])
        assert row["op"] == COMPOSITE and row["served"], row
        kernelforge.stats(reset=True)
        got = model(*inputs)
        assert kernelforge.stats()["ops"] == {COMPOSITE: {"hits": 1, "fallbacks": {}}}
        with kernelforge.disabled():
            assert torch.equal(got, model(*inputs))
    with torch.no_grad():
        kernelforge.stats(reset=True)
        assert torch.equal(model(*inputs), got)
        assert kernelforge.stats()["ops"] == {}
