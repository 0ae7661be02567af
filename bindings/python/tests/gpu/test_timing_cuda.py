"""Facts, buffers and times of a device: what the extension tells agrees with what torch tells, and every ruler measures what it names."""

import gc
import threading

import pytest
import torch

from serving import ext, fallbacks, hits, serving

pytestmark = pytest.mark.usefixtures("cuda_default")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture
def x():
    return torch.randn(4, 6)


def test_facts_agree_with_torch():
    info, properties = ext().device_info("cuda:0"), torch.cuda.get_device_properties(0)
    assert info["name"] == properties.name
    assert info["capability"] == (properties.major, properties.minor)
    assert info["sm_count"] == properties.multi_processor_count
    assert info["l2_bytes"] == properties.L2_cache_size
    assert info["memory_bytes"] == properties.total_memory
    assert info["warp"] == properties.warp_size == 32
    assert info["smem_optin"] >= 48 * 1024
    assert info["driver"] >= 12000
    assert info["uuid"] == str(properties.uuid).removeprefix("GPU-").replace("-", "")
    assert ext().device_info(0) == ext().device_info(torch.device("cuda:0")) == info


def test_a_device_that_is_not_there_is_told_with_a_hint():
    with pytest.raises(ext().Fault) as caught:
        ext().device_info(torch.cuda.device_count())
    assert caught.value.code == 7, caught.value
    assert "hint: " in str(caught.value), caught.value


# ---- rulers -------------------------------------------------------------------------------------------------------------------------


def test_the_hosts_clock_refuses_a_device(x):
    for time in (ext().time_calls, ext().time_blocks):
        with pytest.raises(ext().Fault, match="host's clock") as caught:
            time("aten::relu", [[x]], 1, 1)
        assert caught.value.code == 1
        assert "hint: " in str(caught.value)
    with pytest.raises(ext().Fault, match="host's clock"):
        ext().time_calls("aten::cat", [[[x, x]]], 1, 1)


def test_host_cost_is_of_the_calling_thread(x):
    """A call on a gigabyte keeps the device for long, the host as short as a call on 24 elements."""
    large = torch.empty(1 << 28)
    assert len(ext().host_cost("aten::relu", [[x]], 5, 64, plans=False)) == 5
    small_ns = min(ext().host_cost("aten::relu", [[x]], 5, 64, plans=False))
    large_ns = min(ext().host_cost("aten::relu", [[large]], 5, 4, plans=False))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.relu(large)
    end.record()
    end.synchronize()
    device_ns = start.elapsed_time(end) * 1e6
    assert 500 < small_ns < 1e6, small_ns
    assert large_ns < device_ns / 2, (large_ns, device_ns)
    with pytest.raises(ext().Fault, match="1 to 256"):
        ext().host_cost("aten::relu", [[x]], 1, 257)


def test_host_cost_serves_or_not_and_leaves_the_gil(x):
    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1

    with serving(lambda: torch.relu(x)):
        thread = threading.Thread(target=tick)
        thread.start()
        before = ticks[0]
        ext().host_cost("aten::relu", [[x]], 20, 200)
        during = ticks[0] - before
        stop.set()
        thread.join()
        assert hits("aten::relu") == 4001, f"fallbacks {fallbacks('aten::relu')}"
        ext().host_cost("aten::relu", [[x]], 2, 10, plans=False)
        assert hits("aten::relu") == 4001
    assert during > 100


def graph_of(overload, sets, n, plans):
    graph = torch.cuda.CUDAGraph()
    ext().run_calls(overload, sets, len(sets), plans)  # what torch loads lazily
    with torch.cuda.graph(graph):
        ext().run_calls(overload, sets, n, plans)
    return graph


@pytest.mark.parametrize("plans", [False, True])
def test_a_graph_of_calls_is_timed_by_events(plans):
    """Each call copies 64 MiB, so 20 of them take at least 20 times what the bytes take at ten terabytes a second."""
    sets = [[torch.randn(1 << 23)] for _ in range(3)]
    with serving(lambda: torch.relu(sets[0][0]), only="aten::relu"):
        graph = graph_of("aten::relu", sets, 20, plans)
        assert hits("aten::relu") == (23 if plans else 0)
        times = ext().graph_time(
            "cuda:0", graph.raw_cuda_graph_exec(), torch.cuda.current_stream().cuda_stream, 8
        )
    assert len(times) == 8
    fastest = (1 << 26) / 10e12 * 1e9
    assert all(20 * fastest < t < 1e9 for t in times), times
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(8):
        graph.replay()
    end.record()
    end.synchronize()
    torchs = start.elapsed_time(end) * 1e6 / 8
    assert 0.5 < sorted(times)[4] / torchs < 2.0, (times, torchs)


def test_graph_time_works_on_a_side_stream(x):
    graph, side = graph_of("aten::relu", [[x]], 10, False), torch.cuda.Stream()
    times = ext().graph_time(0, graph.raw_cuda_graph_exec(), side.cuda_stream, 4)
    assert len(times) == 4
    assert all(100 < t < 1e9 for t in times), times


def test_run_calls_computes_what_the_calls_compute(x):
    """In-place calls leave their mark, so that a graph of 5 additions adds 5 times a replay."""
    total = torch.zeros(4, 6)
    one = torch.ones(4, 6)
    ext().run_calls("aten::add_.Tensor", [[total, one]], 2, False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ext().run_calls("aten::add_.Tensor", [[total, one]], 5, False)
    assert torch.equal(total, torch.full_like(total, 2.0)), "a capture runs nothing"
    graph.replay()
    graph.replay()
    assert torch.equal(total, torch.full_like(total, 12.0))


def test_the_reference_kernel_is_timed_on_the_device():
    times = ext().time_reference(5, "cuda:0")
    assert len(times) == 5
    assert all(1e3 < t < 1e8 for t in times), times
    assert len(ext().time_reference(2)) == 2


# ---- buffers ------------------------------------------------------------------------------------------------------------------------


def test_a_buffer_is_device_memory_behind_a_tensor_outside_the_allocator():
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    buffer = ext().Buffer(1000, "cuda:0")
    assert buffer.device == 0
    assert buffer.fd >= 0
    assert buffer.bytes >= 1000
    t = buffer.tensor(256, torch.float32, [2, 3], [3, 1])
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    assert t.device == torch.device("cuda:0")
    assert t.data_ptr() == buffer.data_ptr + 256
    assert str(torch._C._dispatch_keys(t)) == str(torch._C._dispatch_keys(torch.ones(2, 3)))
    assert torch.equal(t, torch.zeros(2, 3)), "zeroed"
    t.copy_(torch.arange(6.0).view(2, 3))
    again = buffer.tensor(256, torch.float32, [6], [1])
    assert again.tolist() == [0, 1, 2, 3, 4, 5]
    buffer.fill(256, 4, 0xFF)
    assert again[0].isnan()
    assert again[1].item() == 1.0
    del buffer, t
    gc.collect()
    assert again[5].item() == 5.0, "a tensor keeps the memory"


def test_a_buffer_dies_after_the_work_that_reads_it():
    side = torch.cuda.Stream()
    t = ext().Buffer(1 << 22, 0).tensor(0, torch.float32, [1 << 20], [1])
    t.fill_(2.0)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        total = t.sum()
    del t
    gc.collect()
    side.synchronize()
    assert total.item() == 2.0 * (1 << 20)


def test_a_tensor_outside_a_device_buffer_is_refused():
    buffer = ext().Buffer(4096, 0)
    with pytest.raises(ext().Fault, match="does not lie inside"):
        buffer.tensor(buffer.bytes, torch.float32, [1], [1])
    with pytest.raises(ext().Fault) as caught:
        buffer.fill(buffer.bytes, 1, 0)
    assert caught.value.code == 1


def test_a_call_on_buffers_is_served(x):
    with serving(lambda: torch.relu(x), only="aten::relu"):
        t = ext().Buffer(x.numel() * 4, 0).tensor(0, torch.float32, [4, 6], [6, 1])
        t.copy_(x)
        assert torch.equal(torch.relu(t), x.clamp(min=0))
        assert hits("aten::relu") == 1, fallbacks("aten::relu")
