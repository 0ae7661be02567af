"""The extension itself: installation, refusals, the off switch, plans, buffers, calls and timing."""

import json
import os
import statistics
import subprocess
import sys
import textwrap

import pytest
import torch

from handmade import image, open_plan, plan_json, record
from handmade_kernels import KERNELS
from serving import ext, hits, plans_for, published

X = torch.randn(4, 6)


def python(text, **environment):
    """Run a script in a fresh process; return its last line of output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def relu_plan(**changes):
    (call,) = [r["call"] for r in record(lambda: torch.relu(X))]
    return open_plan(call, KERNELS, **changes)


# ---- installation -------------------------------------------------------------------------------------------------------------------


def test_every_overload_of_the_list_is_hooked_in_this_torch():
    done = ext().install()
    assert done["refused"] == []
    assert done["missing"] == []
    assert sorted(done["hooked"]) == sorted(row["overload"] for row in ext().op_table())
    assert ext().install() == done


def test_a_hook_is_a_kernel_at_backend_select_of_that_overload_alone():
    table = torch._C._dispatch_dump_table
    assert "[kernel]" in next(
        line for line in table("aten::relu").splitlines() if line.startswith("BackendSelect")
    )
    assert "fallthrough" in next(
        line for line in table("aten::sort").splitlines() if line.startswith("BackendSelect")
    )


def test_not_hooked_on_purpose():
    hooked = set(ext().install()["hooked"])
    for name in (
        "_to_copy",
        "clone",
        "convolution",
        "_convolution",
        "index_select",
        "gather",
        "embedding",
        "sort",
    ):
        assert f"aten::{name}" not in hooked


def test_group_norm_is_hooked_where_its_leaf_does_not_take_channels_last():
    """`native_group_norm` takes channels_last on CUDA from torch 2.14 on."""
    older = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)
    assert ("aten::group_norm" in ext().install()["hooked"]) == older
    (line,) = (
        text
        for text in torch._C._dispatch_dump_table("aten::group_norm").splitlines()
        if text.startswith("BackendSelect")
    )
    assert ("[kernel]" in line) == older
    assert ("aten::group_norm" in {row["overload"] for row in ext().op_table()}) == older


def test_an_overload_that_another_library_holds_is_refused():
    out = python("""
        import json, torch
        library = torch.library.Library("aten", "IMPL")
        library.impl("tanh", lambda keys, x: torch.ops.aten.tanh.default.redispatch(keys & torch._C._after_autograd_keyset, x), "BackendSelect", with_keyset=True)
        from kernelforge import _ext
        module = _ext.load()
        print(json.dumps(module.install()["refused"]))
    """)
    (refused,) = json.loads(out)
    assert refused["overload"] == "aten::tanh"
    assert "kernel at BackendSelect already" in refused["why"]


def test_environment_variable_turns_everything_off():
    out = python(
        """
        import json, torch
        import kernelforge._C as module
        done = module.install()
        module.set_enabled(True)
        torch.relu(torch.ones(3))
        table = torch._C._dispatch_dump_table("aten::relu")
        print(json.dumps([done["hooked"], done["disabled"], module.enabled(), "BackendSelect: fallthrough" in table]))
        """,
        KERNELFORGE_DISABLE="1",
    )
    assert json.loads(out) == [[], True, False, True]


def test_import_of_the_extension_alone_installs_nothing():
    out = python("""
        import torch, kernelforge._C
        print("BackendSelect: fallthrough" in torch._C._dispatch_dump_table("aten::relu"))
    """)
    assert out == "True"


def test_process_ends_cleanly_while_capturing_with_plans_published():
    """Autograd's threads outlive main(); the hooks, tables and records must still be there for them."""
    python("""
        import torch
        from handmade import open_plan, record
        from handmade_kernels import KERNELS
        from kernelforge import _ext
        module = _ext.load()
        x = torch.ones(8, requires_grad=True)
        (call,) = [r["call"] for r in record(lambda: torch.relu(x))]
        module.publish([open_plan(call, KERNELS)])
        torch.relu(x).sum().backward()
        assert module.stats()["ops"]["aten::relu"]["hits"] == 1
        module.capture_begin(4, 1 << 20)
        module.discovery_begin()
        torch.relu(x).sum().backward()
        print("done")
    """)


def test_build_info():
    info = ext().build_info()
    assert torch.__version__.startswith(info["torch"])
    assert info["runtime_abi"] == ext().abi() == 1
    assert info["targets"] == ("host", "cuda")


# ---- plans --------------------------------------------------------------------------------------------------------------------------


def test_plan_tells_about_itself():
    plan = relu_plan()
    assert plan.overload == "aten::relu"
    assert plan.info | {"id": ""} == {
        "id": "",
        "overload": "aten::relu",
        "device": -1,
        "inputs": 1,
        "outputs": 1,
        "workspaces": 0,
        "align": [4, 4],
        "deterministic": True,
        "exact": False,
        "hits": 0,
        "published": False,
    }


def test_a_faulty_plan_is_refused_with_the_field_and_a_code():
    call = record(lambda: torch.relu(X))[0]["call"]
    made = KERNELS["aten::relu"](call)
    broken = plan_json(call, made).replace('"out0_numel"', '"out7_numel"')
    with pytest.raises(ext().Fault, match="out7_numel") as caught:
        ext().plan_open(broken, image(made.source()))
    assert caught.value.code == 2
    with pytest.raises(ext().Fault) as caught:
        ext().plan_open(plan_json(call, made), b"not an image")
    assert caught.value.code == 3


def test_two_plans_with_one_guard_are_refused_and_the_old_table_stays():
    first, second = relu_plan(), relu_plan(id="p-00000002")
    with published([first]):
        with pytest.raises(ext().Fault, match="same guard"):
            ext().publish([first, second])
        torch.relu(X)
        assert hits("aten::relu") == 1
        assert [p["id"] for p in ext().plans()] == [first.id]


def test_a_plan_for_an_overload_without_a_hook_is_refused():
    call = record(lambda: torch.relu(X))[0]["call"]
    made = KERNELS["aten::relu"](call)
    text = plan_json(call | {"overload": "aten::sort"}, made)
    plan = ext().plan_open(text, image(made.source()))
    with pytest.raises(ext().Fault, match="not one that hooks can serve"):
        ext().publish([plan])


def test_other_devices_are_refused():
    call = record(lambda: torch.relu(X))[0]["call"]
    made = KERNELS["aten::relu"](call)
    for device in ("cuda:0", torch.device("cuda:0"), 0):  # no such device here, or not one for this image
        with pytest.raises(ext().Fault) as caught:
            ext().plan_open(plan_json(call, made), image(made.source()), device)
        assert torch.cuda.is_available() or caught.value.code == 7, caught.value
    with pytest.raises(ext().Fault, match="no such device"):
        ext().plan_open(plan_json(call, made), image(made.source()), "tpu")


def test_statistics_by_plan_and_overload():
    plan = relu_plan()
    with published([plan]):
        for _ in range(3):
            torch.relu(X)
        torch.relu(X[:2])
        stats = ext().stats()
        assert {p["id"]: p["hits"] for p in stats["plans"]}[plan.id] == 3
        assert stats["ops"]["aten::relu"] == {"hits": 3, "fallbacks": {"no_match": 1}}
        ext().stats(reset=True)
        assert ext().stats()["ops"] == {}


def test_a_plan_that_was_never_published_can_be_dropped():
    plan = relu_plan()
    del plan
    assert torch.equal(torch.relu(X), X.clamp(min=0))


def test_a_missing_pack_is_an_error_with_the_folder(tmp_path):
    with pytest.raises(ext().Fault, match="nowhere"):
        ext().pack_open(str(tmp_path / "nowhere"))


# ---- buffers ------------------------------------------------------------------------------------------------------------------------


def test_buffer_is_shared_memory_behind_a_tensor():
    buffer = ext().Buffer(100)
    assert buffer.bytes % 4096 == 0
    tensor = buffer.tensor(64, torch.float32, [2, 3], [3, 1])
    tensor.copy_(torch.arange(6.0).view(2, 3))
    assert tensor.data_ptr() == buffer.data_ptr + 64
    assert os.pread(buffer.fd, 24, 64) == tensor.numpy().tobytes()
    del buffer
    assert tensor.sum() == 15  # the tensor keeps the memory


@pytest.mark.parametrize(
    ("offset", "sizes", "strides"),
    [
        (4096, [1], [1]),
        (0, [1025], [1]),
        (0, [2], [1024]),
        (-4, [1], [1]),
        (2, [1], [1]),
        (0, [2], [-1]),
        (0, [2, 2], [1]),
        (0, [1 << 62], [1 << 2]),
    ],
)
def test_a_tensor_outside_its_buffer_is_refused(offset, sizes, strides):
    buffer = ext().Buffer(4096)
    with pytest.raises(ext().Fault, match="does not lie inside"):
        buffer.tensor(offset, torch.float32, sizes, strides)


def test_empty_and_last_elements_fit():
    buffer = ext().Buffer(4096)
    assert buffer.tensor(4096, torch.float32, [0], [1]).numel() == 0
    assert buffer.tensor(4092, torch.float32, [], []).numel() == 1
    assert buffer.tensor(0, torch.float32, [4, 2], [0, 1]).shape == (4, 2)


# ---- calls and timing ---------------------------------------------------------------------------------------------------------------


def test_call_goes_through_the_dispatcher():
    with published(plans_for(lambda: torch.relu(X))):
        (out,) = ext().call("aten::relu", [X])
        assert torch.equal(out, X.clamp(min=0))
        assert hits("aten::relu") == 1
    _, indices = ext().call("aten::max_pool2d_with_indices", [X.view(1, 1, 4, 6), [2, 2]])
    assert indices.dtype is torch.int64
    assert torch.equal(ext().call("aten::add.Tensor", [X, 2])[0], X + 2)
    assert ext().call("aten::sum.dim_IntList", [X, [1], False, torch.float64])[0].dtype is torch.float64
    with pytest.raises(ext().Fault, match="no_such_operator"):
        ext().call("aten::no_such_operator", [X])
    with pytest.raises(ext().Fault, match="`other` is missing"):
        ext().call("aten::add.Tensor", [X])


def test_times_are_of_eager_or_of_plans_as_asked():
    with published(plans_for(lambda: torch.relu(X))):
        times = ext().time_calls("aten::relu", [[X], [X.clone()]], samples=3, inner=10, plans=False)
        assert len(times) == 3
        assert all(t > 0 for t in times)
        assert hits("aten::relu") == 0
        ext().time_calls("aten::relu", [[X], [X.clone()]], samples=3, inner=10, plans=True)
        assert hits("aten::relu") == 2 + 3 * 10


def test_a_block_holds_one_sample_of_each_side():
    with published(plans_for(lambda: torch.relu(X))):
        found = ext().time_blocks("aten::relu", [[X]], blocks=5, inner=7, seed=1)
        assert len(found["eager_ns"]) == len(found["ours_ns"]) == 5
        assert found["again_ns"] == []
        assert hits("aten::relu") == 1 + 5 * 7
        found = ext().time_blocks("aten::relu", [[X]], blocks=5, inner=7, seed=1, control=True)
        assert len(found["eager_ns"]) == len(found["ours_ns"]) == len(found["again_ns"]) == 5
        assert hits("aten::relu") == 2 * (1 + 5 * 7)


def test_padding_makes_eager_slower_by_its_share():
    sets = [[X.repeat(64, 1)]]
    found = ext().time_blocks("aten::relu", sets, blocks=21, inner=20, seed=1, control=True, padding=20)
    for side in ("eager_ns", "again_ns"):
        ratio = statistics.median(e / o for e, o in zip(found[side], found["ours_ns"], strict=True))
        assert 1.6 < ratio < 2.4


def test_reference_kernel_is_timed():
    assert all(t > 1000 for t in ext().time_reference(3))


def test_timing_without_arguments_is_refused():
    with pytest.raises(ext().Fault, match="no argument sets"):
        ext().time_calls("aten::relu", [], 1, 1, True)
    with pytest.raises(ext().Fault, match="inner is 0"):
        ext().time_calls("aten::relu", [[X]], 1, 0, True)


def test_thread_off_left_on_another_thread_is_refused():
    import threading

    guard, caught = ext().thread_off(), []

    def leave():
        try:
            guard.__exit__(None, None, None)
        except ext().Fault as e:
            caught.append(str(e))

    with guard:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert "not entered on this thread" in caught[0]
