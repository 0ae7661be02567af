"""Ranges of captured calls: a profiler finds the device time of each captured call by `kf#<id>`."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from serving import ext

pytestmark = pytest.mark.usefixtures("cuda_default")


def profiled(function, payloads=0):
    """Return the records of one run under capture and torch.profiler, and the profiler's events."""
    module = ext()
    with torch.no_grad():
        function()  # what torch loads lazily
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            module.capture_begin(payloads, 1 << 28)
            try:
                function()
                torch.cuda.synchronize()
            finally:
                records = module.capture_end()
    return records, seen.events()


def device_us(events, name):
    return [e.device_time_total for e in events if e.name == name]


def told(events):
    return sorted({(e.name, round(e.device_time_total, 1)) for e in events})


def test_every_call_has_a_range_with_its_kernels():
    """relu is not structured: its kernel is launched by clamp_min inside. The mean of a transposed tensor and cat launch their own."""
    large, y = torch.randn(1 << 22), torch.randn(2048, 2048)

    def function():
        for _ in range(3):
            torch.relu(large)
        y.t().mean(1)
        torch.cat([y, y])

    records, events = profiled(function)
    by_name = {r["overload"]: r for r in records}
    assert {"aten::relu", "aten::mean.dim", "aten::cat"} <= by_name.keys(), list(by_name)
    for overload, record in by_name.items():
        times = device_us(events, f"kf#{record['id']}")
        assert len(times) == record["calls"], (overload, times, told(events))
        assert all(t > 1 for t in times), (overload, times, told(events))


def test_ranges_hold_almost_all_device_time_of_captured_calls():
    large = torch.randn(1 << 24)
    records, events = profiled(lambda: [torch.relu(large), torch.tanh(large), large * 2])
    ranges = sum(sum(device_us(events, f"kf#{r['id']}")) for r in records)
    kernels = sum(e.device_time_total for e in events if e.device_type == torch.autograd.DeviceType.CUDA)
    assert 0.95 * kernels < ranges <= 1.001 * kernels, (ranges, kernels, told(events))


def test_copies_of_arguments_are_apart():
    large = torch.randn(1 << 24)
    records, events = profiled(lambda: torch.relu(large), payloads=1)
    (record,) = [r for r in records if r["overload"] == "aten::relu"]
    (call,) = device_us(events, f"kf#{record['id']}")
    copies = device_us(events, "kf#payload")
    assert len(copies) == 1, told(events)
    assert copies[0] > 1 and call > 1, (copies, call)
    (payload,) = record["payloads"]
    assert payload[0].device == large.device
    assert torch.equal(payload[0], large)
    assert payload[0].data_ptr() != large.data_ptr()


def test_a_range_names_each_kernel_once():
    large = torch.randn(1 << 22)
    records, events = profiled(lambda: torch.relu(large))
    (record,) = [r for r in records if r["overload"] == "aten::relu"]
    (event,) = [e for e in events if e.name == f"kf#{record['id']}"]

    def kernels(e):
        return [k.name for k in e.kernels] + [name for child in e.cpu_children for name in kernels(child)]

    assert len(kernels(event)) == 1, kernels(event)


def test_numbers_of_ranges_are_never_used_again():
    x = torch.randn(8)
    first, _ = profiled(lambda: torch.relu(x))
    second, _ = profiled(lambda: torch.relu(x))
    assert first[0]["call"] == second[0]["call"]
    assert first[0]["id"] != second[0]["id"]
