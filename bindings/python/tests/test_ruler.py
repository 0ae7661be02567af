"""How calls on a device are timed, with graphs, streams and events that are made of nothing: which graphs are captured, kept, replayed, and what is divided."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelforge import _measure
from kernelforge._place import HOST, Place
from kernelforge.referee import ruler

DEVICE = Place(0)


class Graph:
    """A graph that knows what ran while it was captured."""

    open: Graph | None = None
    made: list[Graph]

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool]] = []
        self.replays = 0
        Graph.made.append(self)

    def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
        assert Graph.open is None and capture_error_mode == "thread_local"
        Graph.open = self

    def capture_end(self) -> None:
        if Graph.open is not self:
            raise RuntimeError("no capture to end")
        Graph.open = None

    def raw_cuda_graph_exec(self) -> int:
        return id(self)

    def replay(self) -> None:
        self.replays += 1


class Extension:
    """run_calls notes what is captured; graph_time says 1000 ns for each call of eager in the graph, 500 ns for a plan's."""

    def __init__(self) -> None:
        self.loose: list[tuple[int, bool]] = []
        self.fault = ""
        self.mended: list[Place] = []

    def run_calls(self, name: str, sets: Any, n: int, plans: bool) -> None:
        if Graph.open is None:
            self.loose.append((n, plans))
            return
        if self.fault:
            raise RuntimeError(self.fault)
        Graph.open.calls.append((n, plans))

    def graph_time(self, device: int, raw: int, stream: int, samples: int) -> list[float]:
        graph = next(g for g in Graph.made if id(g) == raw)
        graph.replays += samples
        (n, plans), *more = graph.calls
        assert not more and device == 0 and stream == 7
        return [n * (500.0 if plans else 1000.0)] * samples

    def time_reference(self, samples: int, device: int = -1) -> list[float]:
        return [float(i + 10 * (device >= 0)) for i in range(samples)]


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Extension:
    made = Extension()
    Graph.open, Graph.made = None, []
    stream = SimpleNamespace(cuda_stream=7, synchronize=lambda: None)
    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None, elapsed_time=lambda other: 3.0)
    monkeypatch.setattr(ruler._ext, "load", lambda: made)
    monkeypatch.setattr(ruler, "_side_stream", lambda place: stream)
    monkeypatch.setattr(Place, "mend_capture", lambda place: made.mended.append(place))
    for name, value in {
        "CUDAGraph": Graph,
        "graph_pool_handle": lambda: (0, 1),
        "stream": lambda s: contextlib.nullcontext(),
        "Stream": lambda device: stream,
        "Event": lambda enable_timing: event,
        "synchronize": lambda *a: None,
        "device": lambda ordinal: contextlib.nullcontext(),
        "empty_cache": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return made


def test_a_graph_of_so_many_calls_is_captured_once_and_its_time_is_a_calls(extension: Extension) -> None:
    calls = ruler.calls_of(DEVICE, "aten::relu", [[1], [2]])
    assert calls.eager(3, 5) == [1000.0] * 3
    assert calls.eager(2, 5) == [1000.0] * 2
    assert calls.eager(1, 6) == [1000.0]
    assert [g.calls for g in Graph.made] == [[(5, False)], [(6, False)]]
    assert extension.loose == [(3, False)] * 2  # libraries set themselves up before a capture
    assert calls.how == "graph"


def test_the_graphs_used_last_are_kept(extension: Extension) -> None:
    calls = ruler.calls_of(DEVICE, "aten::relu", [[1]])
    for inner in (*range(1, ruler._MOST_GRAPHS + 1), 1, ruler._MOST_GRAPHS + 1):
        calls.eager(1, inner)
    made = len(Graph.made)
    calls.eager(1, 1)
    assert len(Graph.made) == made  # 1 was used before the last
    calls.eager(1, 2)
    assert len(Graph.made) == made + 1  # 2 had gone


def test_blocks_replay_each_side_as_often(extension: Extension, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruler, "_WARM_S", 0.0)
    calls = ruler.calls_of(DEVICE, "aten::relu", [[1]])
    between: list[int] = []
    found = calls.blocks(16, 4, seed=3, between=lambda: between.append(Graph.made[0].replays))
    assert found == {"eager_ns": [1000.0] * 16, "ours_ns": [500.0] * 16, "again_ns": []}
    eager, ours = Graph.made
    assert (eager.calls, ours.calls) == ([(4, False)], [(4, True)])
    assert eager.replays == ours.replays == 3 + 16  # three blocks alike: it is warm
    assert between == list(range(3, 20))  # before the first block and after each
    calls.blocks(1, 4, seed=4)
    assert len(Graph.made) == 3  # what is served may be another plan now: captured anew


def test_a_device_that_was_timed_a_moment_ago_is_warm_when_samples_agree(
    extension: Extension, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clocks rise with the first work after a pause; samples have to agree in either case."""
    now, least = [100.0], []
    monkeypatch.setattr(ruler.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ruler, "_warm", lambda block, least_s: least.append(least_s))
    monkeypatch.setattr(ruler, "_worked", {})
    calls = ruler.calls_of(DEVICE, "aten::relu", [[1]])
    for pause in (0.0, ruler._IDLE_S / 2, ruler._IDLE_S * 1.5, ruler._IDLE_S / 2):
        now[0] += pause
        calls.blocks(1, 4, seed=3)
    assert least == [ruler._WARM_S, 0.0, ruler._WARM_S, 0.0]


def test_the_control_is_eager_in_a_candidates_place(extension: Extension) -> None:
    calls = ruler.calls_of(DEVICE, "aten::relu", [[1]])
    found = calls.blocks(8, 4, seed=3, control=True)
    assert found == {"eager_ns": [1000.0] * 8, "ours_ns": [500.0] * 8, "again_ns": [1000.0] * 8}
    assert [g.calls for g in Graph.made] == [
        [(4, False)],
        [(4, True)],
        [(4, False)],
    ]  # with memory of its own


def test_the_order_of_a_blocks_sides_is_drawn_for_every_block(
    extension: Extension, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[str] = []
    real = extension.graph_time

    def graph_time(device: int, raw: int, stream: int, samples: int) -> list[float]:
        orders[-1] += str(next(i for i, g in enumerate(Graph.made) if id(g) == raw))
        return real(device, raw, stream, samples)

    monkeypatch.setattr(extension, "graph_time", graph_time)
    monkeypatch.setattr(ruler, "_warm", lambda block, least_s: None)

    def drawn(seed: int) -> list[str]:
        orders.clear()
        Graph.made.clear()
        calls = ruler.calls_of(DEVICE, "aten::relu", [[1]])
        calls.blocks(60, 4, seed, control=True, between=lambda: orders.append(""))
        return orders[:-1]

    first = drawn(3)
    assert set(first) == {"012", "021", "102", "120", "201", "210"}
    assert drawn(3) == first != drawn(4)


def test_padding_is_calls_that_do_not_count(extension: Extension) -> None:
    calls = ruler.calls_of(DEVICE, "aten::relu", [[1]])
    found = calls.blocks(2, 50, seed=0, control=True, padding=1)
    assert found == {"eager_ns": [1020.0] * 2, "ours_ns": [500.0] * 2, "again_ns": [1020.0] * 2}
    extension.fault = "operation not permitted when stream is capturing"
    calls = ruler.calls_of(DEVICE, "aten::nonzero", [[1]])
    found = calls.blocks(1, 50, seed=0, padding=25)
    assert found == {"eager_ns": [6e4], "ours_ns": [6e4], "again_ns": []}  # 3 ms whatever is called


def test_what_cannot_be_captured_is_timed_by_events_and_stays_so(extension: Extension) -> None:
    extension.fault = "operation not permitted when stream is capturing"
    calls = ruler.calls_of(DEVICE, "aten::nonzero", [[1]])
    assert calls.eager(2, 3) == [1e6] * 2  # 3 ms for 3 calls
    assert (calls.how, len(Graph.made), Graph.open) == ("events", 1, None)
    assert extension.mended == [DEVICE]
    assert calls.blocks(2, 3, seed=0) == {"eager_ns": [1e6] * 2, "ours_ns": [1e6] * 2, "again_ns": []}
    assert len(Graph.made) == 1


def test_a_capture_without_memory_is_no_reason_for_events(extension: Extension) -> None:
    extension.fault = "CUDA out of memory"
    with pytest.raises(RuntimeError, match="out of memory"):
        ruler.calls_of(DEVICE, "aten::relu", [[1]]).eager(1, 1)
    assert Graph.open is None


def test_the_reference_kernel_is_the_places(extension: Extension) -> None:
    assert ruler.reference_ns(DEVICE) == 11.0
    assert ruler.reference_ns(HOST) == 1.0


def test_a_whole_model_is_captured_with_plans_off_and_on(
    extension: Extension, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched: list[bool] = []
    forwards: list[tuple[bool, bool]] = []  # plans on, inside a capture

    def forward() -> None:
        forwards.append((switched[-1], Graph.open is not None))

    monkeypatch.setattr(Place, "forward_ms", lambda place, run: (run(), 1.0)[1])
    found = _measure.time_graphs(forward, switched.append, blocks=6, seed=1, place=DEVICE)
    assert (found.ratio, found.samples) == (1.0, 6)
    assert [f for f in forwards if f[1]] == [(False, True), (True, True)]
    assert [g.replays for g in Graph.made] == [7, 7]  # one to warm
    assert switched[-1] is True
