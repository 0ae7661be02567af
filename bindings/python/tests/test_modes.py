"""Served calls under every execution mode: same values, same gradients, and the counters say that they were served."""

import threading

import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F

from serving import close, device, eager, ext, fallbacks, hits, plans_for, published, serving

torch.manual_seed(3)
X = torch.randn(2, 4, 8, 8)
Y = torch.randn(2, 4, 8, 8)
W8, B8 = torch.randn(8), torch.randn(8)
STATS = (torch.randn(4), torch.rand(4) + 0.5, torch.randn(4), torch.randn(4))
M, N, A = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)

BATCH_NORM = {"cpu": "aten::native_batch_norm", "cuda": "aten::cudnn_batch_norm"}[device()]

# name -> (function of one tensor, hooked overload, whether its kernel is bitwise eager's)
FUNCTIONS = {
    "relu": (torch.relu, "aten::relu", True),
    "add": (lambda x: x + Y, "aten::add.Tensor", True),
    "mul": (lambda x: x * Y, "aten::mul.Tensor", True),
    "gelu": (F.gelu, "aten::gelu", False),
    "softmax": (lambda x: F.softmax(x, -1), "aten::_softmax", False),
    "log_softmax": (lambda x: F.log_softmax(x, 1), "aten::_log_softmax", False),
    "layer_norm": (lambda x: F.layer_norm(x, (8,), W8, B8), "aten::native_layer_norm", False),
    "group_norm": (lambda x: F.group_norm(x, 2), "aten::native_group_norm", False),
    "batch_norm": (lambda x: F.batch_norm(x, *STATS), BATCH_NORM, False),
    "max_pool": (lambda x: F.max_pool2d(x, 2), "aten::max_pool2d_with_indices", True),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), "aten::avg_pool2d", False),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2), "aten::upsample_nearest2d", True),
    "mean": (lambda x: x.mean((2, 3)), "aten::mean.dim", False),
    "amax": (lambda x: x.amax(-1), "aten::amax", True),
    "cumsum": (lambda x: x.cumsum(1), "aten::cumsum", False),
    "cat": (lambda x: torch.cat([x, Y], 1), "aten::cat", True),
    "where": (lambda x: torch.where(x > 0, x, Y), "aten::where.self", True),
    "masked_fill": (lambda x: x.masked_fill(Y > 0, 0.25), "aten::masked_fill.Scalar", True),
    "linear": (lambda x: F.linear(x.flatten(2), torch.ones(3, 64), torch.ones(3)), "aten::addmm", False),
}
NAMES = sorted(FUNCTIONS)


def agree(got, expected, exact):
    if exact:
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()
    else:
        close(got, expected)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("name", NAMES)
def test_mode_is_served(name, guard):
    function, overload, exact = FUNCTIONS[name]
    with serving(lambda: function(X), only=overload), guard():
        with eager():
            expected = function(X)
        got = function(X)
        assert hits(overload) == 1
        assert got.is_inference() == expected.is_inference()
        agree(got, expected, exact)


@pytest.mark.parametrize("name", NAMES)
def test_backward_equals_eager(name):
    function, overload, exact = FUNCTIONS[name]

    def run():
        x = X.clone().requires_grad_()
        out = function(x)
        out.backward(torch.ones_like(out))
        return out.detach(), x.grad

    with serving(lambda: function(X), only=overload):
        with eager():
            expected, expected_grad = run()
        got, grad = run()
        assert hits(overload) >= 1
    agree(got, expected, exact)
    agree(grad, expected_grad, exact)


def test_backward_of_an_inplace_call():
    def run():
        x = X.clone().requires_grad_()
        y = x * 2
        y.relu_()
        y.sum().backward()
        return x.grad

    with serving(lambda: (X * 2).relu_(), only="aten::relu_"):
        with eager():
            expected = run()
        assert torch.equal(run(), expected)
        assert hits("aten::relu_") == 1


def test_inplace_call_bumps_the_version_and_backward_notices():
    """Autograd refuses a tensor that was overwritten after it was saved, also when a plan overwrote it."""
    with serving(lambda: X.clone().relu_(), only="aten::relu_"):
        x = X.clone().requires_grad_()
        y = x.exp()  # exp saves its result
        y.relu_()
        assert hits("aten::relu_") == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


# ---- compilers ----------------------------------------------------------------------------------------------------------------------

# what arrives in place of the eager overload: docs/reach.md
AOT = {"batch_norm": "aten::_native_batch_norm_legit_no_training", "upsample": None, "masked_fill": None}
if device() == "cuda":
    AOT["batch_norm"] = None


@pytest.mark.parametrize("name", NAMES)
def test_aot_eager_is_served(name):
    function, overload, exact = FUNCTIONS[name]
    overload = AOT.get(name, overload)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        with eager():
            expected = function(X)
            compiled(X)
        plans = plans_for(lambda: compiled(X), lambda: function(X))
        with published(plans):
            got = compiled(X)
            assert hits(overload) >= 1
    agree(got, expected, exact)


def test_aot_eager_trains_with_eagers_gradients():
    """AOT graphs read the secondary outputs (mean, rstd) in an explicit backward, with grad mode off."""

    def function(x):
        return F.layer_norm(x, (8,), W8, B8).relu()

    def run(f):
        x = X.clone().requires_grad_()
        f(x).sum().backward()
        return x.grad

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    with eager():
        expected = run(function)
    run(compiled)
    with published(plans_for(lambda: run(compiled), only="aten::native_layer_norm")):
        close(run(compiled), expected)
        assert hits("aten::native_layer_norm") == 1


def test_inductor_serves_its_extern_calls_and_keeps_results():
    """Fused operators do not arrive; matrix products that Inductor leaves to torch do."""

    def function(x, y):
        return torch.relu(torch.mm(x, y)) + 1

    left, right = torch.randn(8, 16), torch.randn(16, 4)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True)
    with torch.no_grad():
        with eager():
            expected = function(left, right)
            compiled(left, right)
        with published(plans_for(lambda: compiled(left, right))):
            close(compiled(left, right), expected)
            assert hits("aten::mm.out") == 1
            assert hits("aten::relu") == 0


def test_export_runs_beside_plans_and_the_program_is_served():
    class Net(torch.nn.Module):
        def forward(self, x):
            return F.max_pool2d(torch.relu(x), 2)

    with torch.no_grad(), eager():
        expected = Net()(X)
    with serving(lambda: Net()(X)):
        program = torch.export.export(Net(), (X,)).module()
        ext().stats(reset=True)
        with torch.no_grad():
            got = program(X)
        assert hits("aten::relu") == 1
        assert hits("aten::max_pool2d_with_indices") == 1
    assert torch.equal(got, expected)


def test_plans_do_not_break_a_graph_or_recompile():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(torch.relu, backend=counter, fullgraph=True)
    with torch.no_grad():
        compiled(X)
        with serving(lambda: torch.relu(X)):
            compiled(X)
            assert hits("aten::relu") == 1
        compiled(X)
    assert counter.frame_count == 1


# ---- autocast, functorch ------------------------------------------------------------------------------------------------------------


def test_autocast_meets_only_the_cast_call():
    """A plan for float32 operands must not serve the bfloat16 product that autocast makes of the same call."""
    run = lambda: F.linear(M, N, A)  # noqa: E731
    with serving(run, only="aten::addmm"), torch.no_grad(), torch.autocast(device(), dtype=torch.bfloat16):
        with eager():
            expected = run()
        got = run()
        assert got.dtype is torch.bfloat16
        assert torch.equal(got, expected)
        assert hits("aten::addmm") == 0
        assert fallbacks("aten::addmm") == {"no_match": 1}
        with serving(lambda: torch.relu(X)):
            assert torch.equal(torch.relu(X), X.clamp(min=0))
            assert hits("aten::relu") == 1


@pytest.mark.parametrize("name", ["relu", "add", "softmax", "layer_norm", "max_pool"])
def test_vmap_serves_the_batched_call(name):
    function, _, exact = {**FUNCTIONS, "add": (lambda x: x + x, "aten::add.Tensor", True)}[name]
    run = lambda: torch.vmap(function)(X.unsqueeze(0).repeat(3, 1, 1, 1, 1))  # noqa: E731
    with serving(run):
        with eager():
            expected = run()
        got = run()
        assert hits() >= 1
    agree(got, expected, exact)


@pytest.mark.parametrize("name", ["relu", "mul", "softmax", "layer_norm", "mean"])
def test_jvp_equals_eager(name):
    function, overload, exact = FUNCTIONS[name]
    run = lambda: torch.func.jvp(function, (X,), (Y,))  # noqa: E731
    with serving(lambda: function(X), only=overload):
        with eager():
            expected = run()
        got = run()
        assert hits(overload) >= 1
    for g, e in zip(got, expected, strict=True):
        agree(g, e, exact)


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd, torch.func.hessian])
def test_derivatives_of_derivatives(transform):
    x = torch.randn(5)
    function = lambda t: (torch.sigmoid(t) * t).sum()  # noqa: E731
    with serving(lambda: function(x)):
        with eager():
            expected = transform(function)(x)
        close(transform(function)(x), expected)
        assert hits("aten::sigmoid") >= 1


# ---- threads ------------------------------------------------------------------------------------------------------------------------


def test_threads_are_served_while_plans_come_and_go():
    """Eight threads call while the main thread publishes and unpublishes; every result is eager's."""
    with torch.no_grad():
        plans = plans_for(lambda: torch.relu(X), lambda: X + Y)
        expected = X.clamp(min=0), X + Y
        wrong, stop = [], threading.Event()

        def work():
            while not stop.is_set():
                got = torch.relu(X), X + Y
                if not all(torch.equal(g, e) for g, e in zip(got, expected, strict=True)):
                    wrong.append(got)

        threads = [threading.Thread(target=work) for _ in range(8)]
        ext().stats(reset=True)
        for t in threads:
            t.start()
        for _ in range(200):
            ext().publish(plans)
            torch.relu(X)
            ext().unpublish()
        stop.set()
        for t in threads:
            t.join()
        assert not wrong
        assert hits("aten::relu") >= 200


def test_thread_off_is_of_its_thread():
    with serving(lambda: torch.relu(X)):
        seen = []

        def other():
            torch.relu(X)
            seen.append(hits("aten::relu"))

        with ext().thread_off():
            torch.relu(X)
            assert hits("aten::relu") == 0
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            with ext().thread_off():
                pass
            torch.relu(X)
        assert seen == [1]
        assert hits("aten::relu") == 1
        torch.relu(X)
        assert hits("aten::relu") == 2


class Relus(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.relu(X - index), hits("aten::relu")


def test_forked_loader_workers_are_served():
    """Workers are forked from a process with published plans; they run with one thread, so the plan is one for one thread."""
    with serving(lambda: torch.relu(X), threads=1):
        loader = torch.utils.data.DataLoader(
            Relus(), batch_size=None, num_workers=2, multiprocessing_context="fork"
        )
        for index, (got, served) in enumerate(loader):
            assert torch.equal(got, (X - index).clamp(min=0))
            assert served == index // 2 + 1  # each worker counts its own
        torch.relu(X)
        assert fallbacks("aten::relu") == {"threads": 1}  # here there are more


def test_workers_forked_during_capture_observe_nothing_and_are_served():
    """A profile's input may come from a loader: its workers are forked while capture, trace and discovery are on."""
    module = ext()
    with serving(lambda: torch.relu(X), threads=1):
        module.capture_begin(1, 1 << 20)
        module.discovery_begin()
        module.trace_begin()
        loader = torch.utils.data.DataLoader(
            Relus(), batch_size=None, num_workers=1, multiprocessing_context="fork"
        )
        served = [served for _, served in loader]
        assert module.trace_end() == []
        assert {d["name"] for d in module.discovery_end()}.isdisjoint({"aten::relu"})
        assert "aten::relu" not in [r["overload"] for r in module.capture_end()]
    assert served == list(range(1, 9))
