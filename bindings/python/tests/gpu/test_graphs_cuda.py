"""CUDA graphs: what is captured with plans served replays bit for bit, whatever is published later; and publishing does not disturb a capture."""

import threading

import pytest
import torch

from handmade import record
from on_cuda import on_cuda
from serving import eager, ext, hits, plans_for, published, serving

pytestmark = pytest.mark.usefixtures("cuda_default")

modes = on_cuda("test_modes", {})
FUNCTIONS, X = modes["FUNCTIONS"], modes["X"]


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def captured(function, warm=True):
    """Return a graph of one call and its output."""
    if warm:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            function()
        torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()
    return graph, out


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_replay_is_bit_equal_to_a_direct_call(name):
    function, overload, _ = FUNCTIONS[name]
    x = X.clone()
    with serving(lambda: function(x), only=overload):
        graph, out = captured(lambda: function(x))
        assert hits(overload) == 2, f"warm-up and capture: {ext().stats()['ops'].get(overload)}"
        for factor in (1.0, -3.0):
            x.copy_(X * factor)
            graph.replay()
            direct = function(x)
            assert torch.equal(out, direct), f"largest difference {(out - direct).abs().max().item()}"
            assert out.stride() == direct.stride()
        assert hits(overload) == 4, "a replay is no call"
        served = direct
    x.copy_(X * 2.0)
    graph.replay()
    x.copy_(X * -3.0)
    graph.replay()
    assert torch.equal(out, served), "a graph keeps its kernels after plans are gone"


def test_a_copy_of_the_hosts_value_that_a_graph_repeats_is_eagers():
    """A plan has the value of a 0-dim CPU tensor built in; a graph reads a pinned one anew at each replay."""
    host, out = torch.tensor(0.5, device="cpu").pin_memory(), torch.empty(())
    seen = {
        later: [r["overload"] for r in record(lambda: out.copy_(host, non_blocking=later))]  # noqa: B023
        for later in (False, True)
    }
    assert seen == {False: ["aten::copy_"], True: []}
    graph, _ = captured(lambda: out.copy_(host, non_blocking=True))
    for value in (0.25, -3.0):
        host.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert out.item() == value


def test_a_graph_captured_before_keeps_eager():
    x = X.clone()
    with eager():
        expected = torch.tanh(x)
    graph, out = captured(lambda: torch.tanh(x))
    with serving(lambda: torch.tanh(x), only="aten::tanh"):
        graph.replay()
        assert hits("aten::tanh") == 0
    assert torch.equal(out, expected)


def test_a_chain_of_served_calls_shares_the_graphs_memory():
    """Outputs and workspaces come from the graph's own pool; replays give the same after other work has used the allocator."""
    x = X.clone()

    def chain():
        y = torch.relu(x)
        for _ in range(4):
            y = torch.relu(y + modes["Y"]) * modes["Y"]
        return torch.softmax(y, -1)

    with serving(chain):
        direct = chain()
        assert hits() >= 10
        graph, out = captured(chain)
    noise = [torch.randn(1 << 16) for _ in range(16)]
    graph.replay()
    assert torch.equal(out, direct)
    del noise
    graph.replay()
    assert torch.equal(out, direct)


@pytest.mark.parametrize("observe", ["capture", "trace"])
def test_observing_a_graph_capture_waits_for_nothing_and_copies_nothing(observe):
    module, x = ext(), X.clone()
    graph = torch.cuda.CUDAGraph()
    torch.relu(x)
    if observe == "capture":
        module.capture_begin(1, 1 << 24)
    else:
        module.trace_begin()
    try:
        with torch.cuda.graph(graph):
            out = torch.relu(x)
    finally:
        found = module.capture_end() if observe == "capture" else module.trace_end()
    relu = [r for r in found if r["overload"] == "aten::relu"]
    assert len(relu) == 1, found
    if observe == "capture":
        assert relu[0]["payloads"] == [], "there is no data to copy while work goes into a graph"
    graph.replay()
    assert torch.equal(out, X.clamp(min=0))


@pytest.mark.parametrize("opened", ["before", "meanwhile"])
def test_publishing_while_another_thread_captures(opened):
    """Loading code and launching it on scratch memory is forbidden to a capture in global mode, unless the publisher says that its work is apart."""
    x = X.clone()
    make = lambda: plans_for(lambda: torch.tanh(x), only="aten::tanh")  # noqa: E731
    plans = make() if opened == "before" else None
    texts = record_of(x) if opened == "meanwhile" else None
    capturing, done = threading.Event(), threading.Event()
    out, failed = [], []
    graph = torch.cuda.CUDAGraph()

    def capture():
        try:
            with torch.no_grad(), torch.cuda.graph(graph):
                out.append(torch.relu(x))
                capturing.set()
                assert done.wait(60)
                out.append(torch.tanh(x))
        except BaseException as e:
            failed.append(e)
            capturing.set()

    torch.relu(x)
    torch.tanh(x)
    torch.cuda.synchronize()
    thread = threading.Thread(target=capture)
    thread.start()
    assert capturing.wait(60)
    try:
        if plans is None:
            plans = open_all(texts)
        ext().publish(plans)
        ext().stats(reset=True)
    finally:
        done.set()
        thread.join()
    try:
        assert not failed, f"the capture failed: {failed[0]!r}"
        assert hits("aten::tanh") == 1, "the plan that appeared during the capture is captured"
        graph.replay()
        assert torch.equal(out[0], X.clamp(min=0))
        assert torch.equal(out[1], torch.tanh(x))
        assert hits("aten::tanh") == 2
    finally:
        ext().unpublish()


def record_of(x):
    """Return what a plan for tanh needs, so that opening it does no work of torch's."""
    from handmade import cubin, plan_json, record
    from handmade_kernels import KERNELS

    (call,) = [r["call"] for r in record(lambda: torch.tanh(x))]
    made = KERNELS["aten::tanh"](call)
    return plan_json(call, made, x.get_device()), cubin(made.cuda_source(), x.get_device()), x.get_device()


def open_all(texts):
    return [ext().plan_open(*texts)]


def test_disabled_leaves_graphs_as_they_were():
    x = X.clone()
    with published(plans_for(lambda: torch.relu(x), only="aten::relu")):
        graph, out = captured(lambda: torch.relu(x))
        ext().set_enabled(False)
        try:
            graph.replay()
            assert torch.equal(out, X.clamp(min=0))
            assert hits("aten::relu") == 2
        finally:
            ext().set_enabled(True)
