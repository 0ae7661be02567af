"""What a device adds to a served call: its memory, its streams, its threads, what lies on other devices, and workspaces."""

import contextlib
import threading

import pytest
import torch
import torch.nn.functional as F

from handmade import cubin, plan_json, record
from handmade_kernels import KERNELS
from serving import alone, close, eager, ext, fallbacks, hits, plans_for, published, serving

pytestmark = pytest.mark.usefixtures("cuda_default")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture
def x():
    return torch.linspace(-2, 2, 24).view(4, 6)


# ---- outputs ------------------------------------------------------------------------------------------------------------------------


def looks(t):
    """Return everything that tells a tensor from another one but its values and its address."""
    storage = t.untyped_storage()
    return {
        "sizes": t.shape,
        "strides": t.stride(),
        "dtype": t.dtype,
        "device": t.device,
        "keys": str(torch._C._dispatch_keys(t)),
        "inference": t.is_inference(),
        "grad": t.requires_grad,
        "leaf": t.is_leaf,
        "offset": t.storage_offset(),
        "bytes": storage.nbytes(),
        "resizable": storage.resizable(),
        "storage device": storage.device,
        "pinned": t.is_pinned(),
    }


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_an_output_looks_as_eagers(x, guard):
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    functions = [
        lambda: torch.relu(x),
        lambda: torch.relu(image),
        lambda: torch.relu(x.t()),
        lambda: F.layer_norm(x, (6,)),
        lambda: F.max_pool2d(image, 2),
    ]
    for function in functions:
        with serving(function), guard():
            with eager():
                expected = function()
            got = function()
            assert hits() >= 1, f"not served: {ext().stats()['ops']}"
            assert looks(got) == looks(expected)
            close(got, expected)


def test_memory_is_of_the_caching_allocator(x):
    with serving(lambda: torch.relu(x), only="aten::relu"):
        torch.relu(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        got = torch.relu(x)
        after = torch.cuda.memory_stats()
        assert hits("aten::relu") == 2
        assert after["allocation.all.allocated"] - before == 1, "one allocation a call"
        address, held = got.data_ptr(), torch.cuda.memory_allocated()
        del got
        assert torch.cuda.memory_allocated() < held
        assert torch.relu(x).data_ptr() == address, "the freed block is handed out again on the same stream"


# ---- other devices ------------------------------------------------------------------------------------------------------------------


def test_host_and_device_have_records_and_plans_of_their_own(x):
    host = x.cpu()
    records = record(lambda: (torch.relu(host), torch.relu(x), torch.relu(x)))
    assert [(r["overload"], r["target"], r["device"], r["calls"]) for r in records] == [
        ("aten::relu", "host", -1, 1),
        ("aten::relu", "cuda", x.get_device(), 2),
    ]
    assert records[0]["call"] == records[1]["call"]
    assert len({r["id"] for r in records}) == 2
    with serving(lambda: torch.relu(x)):
        torch.relu(host)
        assert hits("aten::relu") == 0
        assert fallbacks("aten::relu") == {}, (
            "a plan of another kind of device is no reason to look at a call"
        )
        torch.relu(x)
        assert hits("aten::relu") == 1
    with serving(lambda: torch.relu(host)):
        torch.relu(x)
        assert hits("aten::relu") == 0
        assert torch.equal(torch.relu(host), host.clamp(min=0))
        assert hits("aten::relu") == 1
    with serving(lambda: torch.relu(host), lambda: torch.relu(x), only="aten::relu"):
        assert sorted(p["device"] for p in ext().plans()) == [-1, x.get_device()]
        assert torch.equal(torch.relu(x).cpu(), torch.relu(host))
        assert hits("aten::relu") == 2
    assert ext().plans() == []
    torch.relu(x)
    torch.relu(host)
    assert hits("aten::relu") == 2, "unpublished everywhere"


def test_a_zero_dim_cpu_tensor_is_matched_by_its_value(x):
    half = torch.tensor(0.5, device="cpu")
    (call,) = [r["call"] for r in record(lambda: x * half)]
    assert call["args"][1] == {
        "name": "other",
        "kind": "wrapped",
        "dtype": "float32",
        "wrapped_number": False,
        "bits": f"{0x3F000000:016x}",
    }
    with serving(lambda: x * half):
        assert torch.equal(x * torch.tensor(0.5, device="cpu"), x / 2)
        assert hits("aten::mul.Tensor") == 1
        assert torch.equal(x * torch.tensor(0.25, device="cpu"), x / 4)
        assert torch.equal(x * torch.tensor(0.5), x / 2), "a 0-dim tensor of the device is a tensor"
        assert hits("aten::mul.Tensor") == 1
    with serving(lambda: x * 0.5):
        assert torch.equal(x * 0.5, x / 2)
        assert hits("aten::mul.Tensor") == 1
        assert torch.equal(x * half, x / 2), "no wrapped number: its dtype takes part in promotion"
        assert torch.equal(x * torch.tensor(0.25, device="cpu"), x / 4)
        assert hits("aten::mul.Tensor") == 1
        assert fallbacks("aten::mul.Tensor") == {"no_match": 2}


def test_tensors_of_two_kinds_of_device_are_eagers_error(x):
    with serving(lambda: x + x):
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(x, x.cpu())
        assert alone("aten::add.Tensor") == "key_set"
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(x.cpu(), x)
        assert hits("aten::add.Tensor") == 0


def test_copies_between_host_and_device_run_on_eager(x):
    with serving(lambda: torch.empty_like(x).copy_(x), only="aten::copy_"):
        host = torch.empty(4, 6, device="cpu").copy_(x)
        assert torch.equal(host, x.cpu())
        assert torch.equal(torch.empty_like(x).copy_(host), x)
        scalar = torch.empty((), device="cpu").copy_(x[0, 0])
        assert scalar.item() == -2.0
        assert hits("aten::copy_") == 0
        assert torch.equal(torch.empty_like(x).copy_(x), x)
        assert hits("aten::copy_") == 1


needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")


@needs_two
def test_two_devices_each_with_its_plan():
    first, second = (torch.linspace(-2, 2, 24, device=f"cuda:{d}") for d in (0, 1))
    with published(plans_for(lambda: (torch.relu(first), torch.relu(second)), only="aten::relu")):
        assert sorted(p["device"] for p in ext().plans()) == [0, 1]
        for t in (first, second, first):
            got = torch.relu(t)
            assert got.device == t.device
            assert torch.equal(got.cpu(), t.cpu().clamp(min=0))
        assert hits("aten::relu") == 3
        assert torch.cuda.current_device() == 0
        with torch.cuda.device(1):
            assert torch.relu(first).device == first.device
            assert torch.cuda.current_device() == 1
        assert hits("aten::relu") == 4
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(first, second)
    with published(plans_for(lambda: torch.relu(second), only="aten::relu")):
        torch.relu(first)
        assert alone("aten::relu") == "no_match"


@needs_two
def test_tensors_of_two_devices_are_refused_before_the_table_is_asked():
    first, second = (torch.ones(8, device=f"cuda:{d}") for d in (0, 1))
    with serving(lambda: first + first):
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(first, second)
        assert alone("aten::add.Tensor") == "device"


# ---- streams and threads ------------------------------------------------------------------------------------------------------------


def test_a_call_runs_on_the_current_stream(x):
    """The side stream fills the input after a long wait; a kernel on any other stream would read what was there before."""
    side = torch.cuda.Stream()
    with serving(lambda: torch.relu(x), only="aten::relu"):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.fill_(3.0)
            got = torch.relu(x)
            address = got.data_ptr()
        assert hits("aten::relu") == 1
        side.synchronize()
        assert torch.equal(got, torch.full_like(x, 3.0))
    (segment,) = [
        s for s in torch.cuda.memory_snapshot() if s["address"] <= address < s["address"] + s["total_size"]
    ]
    assert segment["stream"] == side.cuda_stream, "memory belongs to the stream that the call ran on"


def test_workspaces_come_and_go_on_the_current_stream(x):
    side = torch.cuda.Stream()
    with published([centred(x)]):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for value in range(8):
                torch.cuda._sleep(1_000_000)
                x.fill_(float(value))
                x[0, 0] += 1
                got = torch.tanh(x)
                expected = x - x.mean()
                close(got, expected)
        assert hits("aten::tanh") == 8


def test_a_thread_whose_first_cuda_action_is_a_served_call(x):
    """It has no CUDA context, and the allocator serves it from its cache, so nothing of torch makes one for it."""
    with serving(lambda: torch.relu(x), only="aten::relu"):
        torch.relu(x)  # leaves a free block behind
        torch.cuda.synchronize()
        found = []

        def work():
            try:
                found.append(torch.relu(x))
            except BaseException as e:
                found.append(e)

        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert hits("aten::relu") == 4, f"fallbacks {fallbacks('aten::relu')}, results {found}"
        for got in found:
            assert isinstance(got, torch.Tensor), repr(got)
            assert torch.equal(got, x.clamp(min=0))


@needs_two
def test_a_fresh_thread_on_the_second_device():
    t = torch.linspace(-2, 2, 24, device="cuda:1")
    with published(plans_for(lambda: torch.relu(t), only="aten::relu")):
        found = []
        thread = threading.Thread(target=lambda: found.append((torch.relu(t), torch.cuda.current_device())))
        thread.start()
        thread.join()
        assert hits("aten::relu") == 1
        assert torch.equal(found[0][0].cpu(), t.cpu().clamp(min=0))
        assert found[0][1] == 0


# ---- workspaces ---------------------------------------------------------------------------------------------------------------------

CENTRED = """
typedef long long i64;
extern "C" __global__ void kf_sum(const float* x, double* sum, unsigned long long* count, i64 n) {
  i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(sum, (double)x[i]); atomicAdd(count, 1ull); }
}
extern "C" __global__ void kf_write(float* out, const float* x, const double* sum, const unsigned long long* count, i64 n) {
  i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] - *sum / *count;
}
"""


def centred(x, **changes):
    """Return a plan for tanh that subtracts the mean: two kernels, the second reads what the first counted into zeroed workspaces."""
    (call,) = [r["call"] for r in record(lambda: torch.tanh(x))]

    def launch(entry, slots):
        return {
            "entry": entry,
            "grid": ["ceildiv(out0_numel, 32)", "1", "1"],
            "block": ["32", "1", "1"],
            "smem": "0",
            "args": [{"slot": s} for s in slots] + [{"int": "out0_numel", "type": "i64"}],
        }

    spec = {
        "schema": 1,
        "constants": {},
        "workspaces": [{"bytes": "8", "zeroed": True}, {"bytes": "self_numel * 8", "zeroed": True}],
        "kernels": [
            launch("kf_sum", ("self", "ws0", "ws1")),
            launch("kf_write", ("out0", "self", "ws0", "ws1")),
        ],
    } | changes
    device = x.get_device()
    text = plan_json(call, KERNELS["aten::tanh"](call), device, spec=spec)
    return ext().plan_open(text, cubin(CENTRED, device), device)


def test_workspaces_are_given_zeroed_and_apart(x):
    with published([centred(x)]):
        for _ in range(3):
            close(torch.tanh(x), x - x.mean())
        assert hits("aten::tanh") == 3


@contextlib.contextmanager
def room_for(more):
    """Leave torch so many bytes of the device beyond those that it has."""
    torch.cuda.empty_cache()
    room = torch.cuda.memory_reserved() + more
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_workspace_that_finds_no_memory_leaves_the_call_to_eager(x):
    torch.cuda.empty_cache()
    # More than all that earlier tests may have left free in blocks that cannot be given back.
    size = torch.cuda.memory_reserved() + (256 << 20)
    big = [{"bytes": "8", "zeroed": True}, {"bytes": str(size), "zeroed": False}]
    source = centred(x).info  # a plan without the large workspace can be made at all
    assert source["workspaces"] == 2
    with published([centred(x, workspaces=big)]):
        with room_for(64 << 20):
            got = torch.tanh(x)
        assert alone("aten::tanh") == "memory"
        close(got, x.cpu().tanh().to(x.device))


def test_a_workspace_that_takes_the_room_of_the_output_leaves_the_call_to_eager():
    torch.cuda.empty_cache()
    left = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # in blocks that cannot be given back
    size = left + (256 << 20)
    x = torch.linspace(-2, 2, size // 4)
    spaces = [{"bytes": "8", "zeroed": True}, {"bytes": str(size), "zeroed": False}]
    with published([centred(x, workspaces=spaces)]):
        with room_for(size + size // 2):  # for one of the two
            got = torch.tanh(x)
        assert alone("aten::tanh") == "memory"
        close(got, x.cpu().tanh().to(x.device))
