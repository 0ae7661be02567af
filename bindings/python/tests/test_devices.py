"""Devices as far as a machine without a GPU can tell: rulers and buffers of the host, what is said where there is no device, and plans of several
devices through a driver without a GPU (fake_cuda.py)."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import fake_cuda
from serving import close, ext, hits, serving

TESTS = Path(__file__).parent
X = torch.randn(4, 6)


def python(text, **environment):
    """Run a script in a fresh process beside this folder; return its last line of output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(TESTS), *(p for p in sys.path if p)])}
        | environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_the_extension_knows_no_cuda_library():
    """One binary serves under a torch with CUDA and one without; the driver is opened by name at first use."""
    binary = Path(ext().__file__).read_bytes()
    for name in (b"libtorch_cuda", b"libc10_cuda", b"libcudart"):
        assert name not in binary, name


# ---- the host -----------------------------------------------------------------------------------------------------------------------


def test_host_cost_is_the_time_of_a_call_on_the_host():
    with torch.no_grad(), serving(lambda: torch.relu(X)):
        times = ext().host_cost("aten::relu", [[X], [X]], 5, 20)
        assert len(times) == 5
        assert min(times) > 0
        assert hits("aten::relu") == 2 + 5 * 20
        ext().host_cost("aten::relu", [[X]], 1, 10, plans=False)
        assert hits("aten::relu") == 2 + 5 * 20
    for inner in (0, 257):
        with pytest.raises(ext().Fault, match="1 to 256"):
            ext().host_cost("aten::relu", [[X]], 1, inner)


def test_hook_cost_pairs_calls_with_and_without_the_hook():
    with torch.inference_mode():
        x = torch.rand(4, 6)
        with serving(lambda: torch.relu(x)):
            costs = ext().hook_cost("aten::relu", [[x]], 3, 20)
            assert {k: len(v) for k, v in costs.items()} == {"bare_ns": 3, "hooked_ns": 3}
            assert min(costs["bare_ns"] + costs["hooked_ns"]) > 0
            assert hits("aten::relu") == 1 + 3 * 20  # bare calls never come to the hook
        with pytest.raises(ext().Fault, match="1 to 256"):
            ext().hook_cost("aten::relu", [[x]], 1, 257)
    with torch.no_grad(), pytest.raises(ext().Fault, match="inference_mode is off"):
        ext().hook_cost("aten::relu", [[X]], 1, 10)


def test_run_calls_walks_the_sets():
    totals, one = [torch.zeros(3), torch.zeros(3)], torch.ones(3)
    ext().run_calls("aten::add_.Tensor", [[t, one] for t in totals], 5)
    assert [t[0].item() for t in totals] == [3.0, 2.0]
    with torch.no_grad(), serving(lambda: torch.relu(X)):
        ext().run_calls("aten::relu", [[X]], 3)
        ext().run_calls("aten::relu", [[X]], 4, False)
        assert hits("aten::relu") == 3


def test_a_buffer_of_the_host_can_be_filled():
    buffer = ext().Buffer(100)
    assert buffer.device == -1
    buffer.fill(4, 4, 0xFF)
    t = buffer.tensor(0, torch.uint8, [12], [1])
    assert t.tolist() == [0] * 4 + [255] * 4 + [0] * 4
    with pytest.raises(ext().Fault) as caught:
        buffer.fill(buffer.bytes, 1, 0)
    assert caught.value.code == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a device")
@pytest.mark.parametrize(
    "use",
    [
        lambda: ext().device_info("cuda:0"),
        lambda: ext().Buffer(4096, "cuda:0"),
        lambda: ext().time_reference(1, "cuda:0"),
        lambda: ext().graph_time("cuda:0", 1, 0, 1),
    ],
    ids=["device_info", "buffer", "time_reference", "graph_time"],
)
def test_without_a_device_the_error_says_so_with_a_hint(use):
    with pytest.raises(ext().Fault) as caught:
        use()
    assert caught.value.code == 7, caught.value
    assert "hint: " in str(caught.value), caught.value


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "cuda:-1", "cuda:99999"])
def test_a_name_that_is_no_device(name):
    with pytest.raises(ext().Fault, match="no such device") as caught:
        ext().device_info(name)
    assert caught.value.code == 7


def test_the_host_has_no_device_facts_and_no_graphs():
    for use in (lambda: ext().device_info("cpu"), lambda: ext().graph_time(-1, 1, 0, 1)):
        with pytest.raises(ext().Fault) as caught:
            use()
        assert caught.value.code in (1, 7), caught.value


# ---- what a profiler sees -----------------------------------------------------------------------------------------------------------


def test_captured_calls_run_in_ranges_of_their_records():
    module = ext()
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as seen:
        module.capture_begin(1, 1 << 20)
        for _ in range(3):
            torch.relu(X)
        torch.tanh(X)
        records = {r["overload"]: r for r in module.capture_end()}
    names = [e.name for e in seen.events() if e.name.startswith("kf#")]
    relu, tanh = records["aten::relu"], records["aten::tanh"]
    assert relu["id"] != tanh["id"]
    assert (relu["device"], relu["target"]) == (-1, "host")
    assert names.count(f"kf#{relu['id']}") == 3
    assert names.count(f"kf#{tanh['id']}") == 1
    assert names.count("kf#payload") == 2
    assert len(names) == 6
    inside = next(e for e in seen.events() if e.name == f"kf#{relu['id']}")
    assert [c.name for c in inside.cpu_children] == ["aten::clamp_min"]


def test_ranges_are_no_operators_to_discovery():
    module = ext()
    module.discovery_begin()
    module.capture_begin()
    torch.relu(X)
    module.capture_end()
    found = {d["name"] for d in module.discovery_end()}
    assert "aten::relu" in found
    assert not [n for n in found if n.startswith("kf#")]


def test_a_trace_describes_calls_that_no_plan_could_serve():
    """Sparse and nested tensors have no strides, and a complex number does not fit the word that a number is kept in."""
    z = torch.ones(4, dtype=torch.complex128)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with torch.no_grad():
        ext().trace_begin()
        doubled = z * (1 + 2j)
        torch.relu(X.to_sparse())
        torch.relu(nested)
        trace = ext().trace_end()
    close(doubled, torch.full((4,), 1 + 2j, dtype=torch.complex128))
    (mul,) = [t for t in trace if t["overload"] == "aten::mul.Tensor"]
    assert mul["call"]["args"][1] == {
        "name": "other",
        "kind": "tensor",
        "dtype": "other",
        "sizes": [],
        "strides": [],
    }


# ---- several devices, without one ---------------------------------------------------------------------------------------------------

SCRIPT = """
import ctypes, json, os
import torch
import fake_cuda
from handmade import image, plan_json, record
from handmade_kernels import KERNELS
from kernelforge import _ext
module = _ext.load()
fake = ctypes.CDLL(os.environ["KERNELFORGE_LIBCUDA"])
X = torch.randn(4, 6)
CUBIN = fake_cuda.cubin("arch=90\\nkf_main params=8,8,8 shared=0 threads=1024\\n")

def plan(function, device, **changes):
    (call,) = [r["call"] for r in record(function)]
    made = KERNELS[call["overload"]](call)
    code = image(made.source()) if device < 0 else CUBIN
    return module.plan_open(plan_json(call, made, device, **changes), code, device)

def served():
    return sorted((p["device"], p["id"]) for p in module.plans())

def fault(use):
    try:
        use()
    except module.Fault as e:
        return e
    raise AssertionError("no fault")

torch.set_grad_enabled(False)
relu, tanh = (lambda: torch.relu(X)), (lambda: torch.tanh(X))
"""


def with_two_devices(text):
    return python(
        SCRIPT + textwrap.dedent(text),
        KERNELFORGE_LIBCUDA=str(fake_cuda.library()),
        KF_FAKE_CUDA="devices=2",
    )


def test_plans_of_several_devices_come_and_go_together():
    told = with_two_devices(
        """
        plans = [plan(relu, d, id=f"p-relu{d}") for d in (1, -1, 0)]
        module.publish(plans)
        assert served() == [(-1, "p-relu-1"), (0, "p-relu0"), (1, "p-relu1")], served()
        relu()
        assert plans[1].hits == 1 and plans[0].hits == plans[2].hits == 0
        module.publish(plans[2:])
        assert served() == [(0, "p-relu0")], served()
        module.stats(reset=True)
        relu()
        assert module.stats()["ops"] == {}, "a plan of another kind of device is no reason to look at a call"
        module.publish(plans)
        assert len(served()) == 3
        module.unpublish()
        assert served() == []
        module.publish(plans[:1])
        assert served() == [(1, "p-relu1")]
        print("ok")
        """
    )
    assert told == "ok"


def test_a_device_that_refuses_leaves_every_table_as_it_was():
    told = with_two_devices(
        """
        old = [plan(relu, d, id=f"p-old{d}") for d in (-1, 0, 1)]
        module.publish(old)
        new = [plan(tanh, d, id=f"p-new{d}") for d in (-1, 0, 1)]
        twin = plan(tanh, 1, id="p-twin")
        before = served()
        e = fault(lambda: module.publish([*new, twin]))
        assert "same guard" in str(e), e
        assert served() == before, served()
        new = [plan(tanh, d, id=f"p-newer{d}") for d in (-1, 0, 1)]
        fake.kf_fake_fail(b"cuLaunchKernelEx", 1, 1, 1)  # device 0 takes its warm launch, device 1 does not
        e = fault(lambda: module.publish(new))
        assert e.code == 8, (e.code, e)
        assert served() == before, served()
        module.stats(reset=True)
        relu()
        tanh()
        assert old[0].hits == 1 and new[0].hits == 0
        module.publish(new)
        relu()
        tanh()
        assert old[0].hits == 1 and new[0].hits == 1
        print("ok")
        """
    )
    assert told == "ok"


def test_facts_and_buffers_of_a_device():
    told = with_two_devices(
        """
        info = module.device_info("cuda:1")
        assert info["capability"] == (9, 0) and info["driver"] == 13000 and info["warp"] == 32, info
        assert len(info["uuid"]) == 32, info
        assert fault(lambda: module.device_info(2)).code == 7
        buffer = module.Buffer(1000, "cuda:1")
        assert buffer.device == 1 and buffer.fd >= 0 and buffer.bytes == 1 << 21, buffer.bytes
        buffer.fill(8, 4, 0x41)
        assert ctypes.string_at(buffer.data_ptr, 16) == bytes(8) + b"AAAA" + bytes(4)
        print("ok")
        """
    )
    assert told == "ok"


def test_a_plan_for_a_device_is_not_one_for_another():
    told = with_two_devices(
        """
        first = plan(relu, 0)
        assert first.info["device"] == 0, first.info
        e = fault(lambda: module.plan_open("{}", CUBIN, 2))
        assert e.code in (2, 7), (e.code, e)
        e = fault(lambda: plan(relu, 0, threads=2))
        assert "threads" in str(e), e
        print("ok")
        """
    )
    assert told == "ok"
