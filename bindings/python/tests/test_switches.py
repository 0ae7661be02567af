"""What decides beside the call itself: determinism, training, the thread count, the switches, and what is published."""

import resource
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from handmade import image, plan_json, record
from handmade_kernels import KERNELS
from serving import alone, close, ext, fallbacks, hits, plans_for, published, serving

torch.manual_seed(5)
X = torch.randn(4, 6)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("deterministic", [True, False])
def test_deterministic_mode(deterministic):
    with serving(lambda: torch.relu(X), deterministic=deterministic):
        torch.use_deterministic_algorithms(True)
        try:
            assert torch.equal(torch.relu(X), X.clamp(min=0))
        finally:
            torch.use_deterministic_algorithms(False)
        assert hits("aten::relu") == int(deterministic)
        assert fallbacks("aten::relu") == ({} if deterministic else {"deterministic": 1})
        torch.relu(X)
        assert hits("aten::relu") == 1 + int(deterministic)


def test_fall_backs_are_counted_at_the_site_that_had_them():
    small, large = torch.randn(4, 6), torch.randn(8, 6)
    with torch.no_grad():
        plans = plans_for(lambda: torch.relu(small), lambda: torch.relu(large), deterministic=False)
    with published(plans):
        torch.relu(small)
        torch.use_deterministic_algorithms(True)
        try:
            torch.relu(large)
        finally:
            torch.use_deterministic_algorithms(False)
        torch.relu(torch.randn(2, 6))  # no site of ours
        seen = {(p.hits, tuple(p.fallbacks.items())) for p in plans}
        assert seen == {(1, ()), (0, (("deterministic", 1),))}
        assert fallbacks("aten::relu") == {"deterministic": 1, "no_match": 1}
        ext().stats(reset=True)
        assert all(p.hits == 0 and p.fallbacks == {} for p in plans)


def test_another_default_type_makes_other_outputs_of_integers():
    a = torch.arange(6)
    divided = lambda: a / 3  # noqa: E731
    with serving(divided):
        assert divided().dtype is torch.float32
        assert hits("aten::div.Tensor") == 1
        torch.set_default_dtype(torch.float64)
        try:
            assert divided().dtype is torch.float64
            assert fallbacks("aten::div.Tensor") == {"settings": 1}
        finally:
            torch.set_default_dtype(torch.float32)
    torch.set_default_dtype(torch.float64)
    try:
        plans = plans_for(divided)  # the other way round: judged under float64, called under float32
    finally:
        torch.set_default_dtype(torch.float32)
    with published(plans):
        assert divided().dtype is torch.float32
        assert alone("aten::div.Tensor") == "settings"


def test_another_default_type_decides_how_an_out_form_computes_of_integers():
    a, out = torch.arange(1, 7), torch.empty(6)
    rooted = lambda: torch.rsqrt(a, out=out)  # noqa: E731
    with serving(rooted):
        rooted()
        assert hits("aten::rsqrt.out") == 1
        ext().stats(reset=True)
        torch.set_default_dtype(torch.float64)
        try:
            rooted()  # eager computes in float64 and rounds
        finally:
            torch.set_default_dtype(torch.float32)
        assert alone("aten::rsqrt.out") == "settings"
    b = torch.rand(6)
    with serving(lambda: torch.rsqrt(b, out=out), lambda: torch.rsqrt_(b)):
        torch.set_default_dtype(torch.float64)
        try:
            torch.rsqrt(b, out=out)  # the input says what it is computed in
            torch.rsqrt_(b)
        finally:
            torch.set_default_dtype(torch.float32)
        assert hits() == 2


@contextmanager
def room(nbytes):
    """Let the process have this much more address space than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("megabytes", [1024, 192], ids=["the workspace", "the output beside it"])
def test_memory_that_a_workspace_takes_or_does_not_find_leaves_the_call_to_eager(megabytes):
    if X.is_cuda:
        pytest.skip("the limit is of the host's memory; gpu/test_device_cuda.py has the device's")
    x = torch.randn(32 << 20)  # 128 MiB
    (r,) = record(lambda: torch.relu(x))
    made = KERNELS["aten::relu"](r["call"])
    spec = made.spec(cuda=False) | {"workspaces": [{"bytes": str(megabytes << 20), "zeroed": False}]}
    plan = ext().plan_open(plan_json(r["call"], made, spec=spec), image(made.source()))
    with published([plan]):
        with room(256 << 20):
            got = torch.relu(x)
        assert alone("aten::relu") == "memory"
        assert torch.equal(got, x.clamp(min=0))
        torch.relu(x)
        assert hits("aten::relu") == 1


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_with_onednn_off_eager_takes_other_code():
    with serving(lambda: F.gelu(X)):
        with torch.backends.mkldnn.flags(enabled=False):
            F.gelu(X)
        assert X.is_cuda or alone("aten::gelu") == "settings"  # it is of the CPU
        F.gelu(X)
        assert hits("aten::gelu") == 1 + int(X.is_cuda)


def test_a_copy_on_write_clone_is_no_alias_once_it_is_written():
    a = torch.randn(64)
    with serving(lambda: torch.ops.aten.relu.out(a, out=a)):
        was = a.clone()
        b = torch._lazy_clone(a)
        torch.ops.aten.relu.out(a, out=b)
        assert torch.equal(a, was)
        assert torch.equal(b, was.clamp(min=0))
        assert alone("aten::relu.out") == "overlap"


def test_batch_norm_in_training_runs_on_eager_and_updates_its_statistics():
    x = torch.randn(8, 4)
    mean, var = torch.zeros(4), torch.ones(4)
    with serving(lambda: F.batch_norm(x, mean, var)):
        F.batch_norm(x, mean, var)
        assert hits("aten::native_batch_norm") == 1
        records = record(lambda: F.batch_norm(x, mean, var, training=True))
        assert "aten::native_batch_norm" not in [r["overload"] for r in records]
        mean.zero_()
        F.batch_norm(x, mean, var, training=True)
        assert fallbacks("aten::native_batch_norm") == {"rule": 1}
        close(mean, 0.1 * x.mean(0))


def test_attention_with_dropout_is_not_recorded():
    q = torch.randn(1, 2, 8, 4)
    assert [r["overload"] for r in record(lambda: F.scaled_dot_product_attention(q, q, q))] == [
        "aten::_scaled_dot_product_flash_attention_for_cpu"
    ]
    records = record(lambda: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5))
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" not in [r["overload"] for r in records]


def test_disabled_is_process_wide():
    with serving(lambda: torch.relu(X)):
        assert ext().enabled()
        ext().set_enabled(False)
        try:
            assert not ext().enabled()
            torch.relu(X)
            assert alone("aten::relu") == "disabled"
        finally:
            ext().set_enabled(True)
        torch.relu(X)
        assert hits("aten::relu") == 1


def test_thread_count_is_part_of_the_plan():
    before = torch.get_num_threads()
    with serving(lambda: torch.relu(X), threads=before + 1):
        assert torch.equal(torch.relu(X), X.clamp(min=0))
        assert alone("aten::relu") == "threads"


def test_unpublished_plans_are_not_served_and_can_return():
    plans = plans_for(lambda: torch.relu(X))
    with published(plans):
        torch.relu(X)
        assert plans[0].published
        assert plans[0].hits == 1
    assert not plans[0].published
    torch.relu(X)
    assert plans[0].hits == 1
    with published(plans):
        torch.relu(X)
        assert plans[0].hits == 1  # published() starts at zero


def test_a_served_call_costs_no_python_and_no_gil():
    """Timing runs without the GIL: another Python thread makes progress meanwhile, in one of some rounds: a busy machine may not run it in a short one."""
    ticks, stop, calls = [0], threading.Event(), 20_000

    def tick():
        while not stop.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    with serving(lambda: torch.relu(X)):
        thread.start()
        during = rounds = 0
        while during <= 100 and rounds < 20:
            before = ticks[0]
            ext().time_calls("aten::relu", [[X]], 5, calls, True)
            during, rounds = ticks[0] - before, rounds + 1
        stop.set()
        thread.join()
        assert hits("aten::relu") == rounds * (5 * calls + 1)
    assert during > 100


def test_workspaces_are_given_zeroed_and_apart():
    """Two kernels of one plan: the first counts into workspaces, the second reads them; a second call starts from zero again."""
    source = """
typedef long long i64;
union kf_arg { void* p; i64 i; double f; };
#define KF_ENTRY extern "C" __attribute__((visibility("default")))
KF_ENTRY void kf_sum(i64 begin, i64 end, const kf_arg* a) {
  for (i64 i = begin; i < end; ++i) { *(double*)a[1].p += ((float*)a[0].p)[i]; *(i64*)a[2].p += 1; }
}
KF_ENTRY void kf_write(i64 begin, i64 end, const kf_arg* a) {
  for (i64 i = begin; i < end; ++i) ((float*)a[0].p)[i] = ((float*)a[1].p)[i] - *(double*)a[2].p / *(i64*)a[3].p;
}
"""
    spec = {
        "schema": 1,
        "constants": {},
        "workspaces": [{"bytes": "8", "zeroed": True}, {"bytes": "self_numel * 8", "zeroed": True}],
        "kernels": [
            {
                "entry": "kf_sum",
                "work": "out0_numel",
                "grain": "out0_numel",
                "args": [{"slot": s} for s in ("self", "ws0", "ws1")],
            },
            {
                "entry": "kf_write",
                "work": "out0_numel",
                "grain": "4",
                "args": [{"slot": s} for s in ("out0", "self", "ws0", "ws1")],
            },
        ],
    }
    (call,) = [r["call"] for r in record(lambda: torch.tanh(X))]
    plan = ext().plan_open(plan_json(call, KERNELS["aten::tanh"](call), spec=spec), image(source))
    with published([plan]):
        for _ in range(3):
            close(torch.tanh(X), X - X.mean())
        assert hits("aten::tanh") == 3
