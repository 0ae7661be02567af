"""What a CUDA device adds in Python, as far as it needs no device: whose kernel is whose, groups in chunks, what fits in memory, packs."""

from types import SimpleNamespace

import pytest

from kernelforge import _device_time, _measure, _pack, _roof, _turns
from kernelforge._device_time import Launch, attribute, launches_of
from kernelforge._place import HOST, Place, attempt
from kernelforge.errors import PackFault

torch = pytest.importorskip("torch")


# ---- whose kernel is whose --------------------------------------------------------------------------------------


def test_a_kernel_belongs_to_the_outermost_range_around_its_launch():
    found = attribute(
        [
            Launch("kf#4", 1, 0, 100),
            Launch("aten::native_batch_norm", 1, 1, 90, 30.0),
            Launch("kf#7", 1, 10, 50),  # a hooked call inside a hooked call: a child, no owner
            Launch("aten::copy_", 1, 20, 30, 5.0),
            Launch("kf#7", 1, 200, 250),
            Launch("aten::copy_", 1, 210, 220, 2.0),
        ]
    )
    assert found.samples == {4: [35.0], 7: [2.0]}
    assert found.rest == {}


def test_threads_do_not_share_ranges_and_what_is_outside_has_torchs_name():
    found = attribute(
        [
            Launch("kf#0", 1, 0, 100),
            Launch("aten::add", 2, 10, 20, 3.0),
            Launch("aten::add", 1, 150, 160, 4.0),
        ]
    )
    assert found.samples == {0: [0.0]}
    assert sorted(found.rest["aten::add"]) == [3.0, 4.0]
    assert found.named_us == 7.0


def test_copies_of_arguments_are_the_captures_own_work():
    found = attribute(
        [Launch("kf#payload", 1, 0, 10), Launch("aten::copy_", 1, 1, 9, 8.0), Launch("kf#0", 1, 20, 30, 1.0)]
    )
    assert found.samples == {0: [1.0]}
    assert found.rest == {}


def _event(name, start, end, *, kernels=(), device="CPU", annotation=False):
    from torch.autograd import DeviceType

    return SimpleNamespace(
        name=name,
        device_type=getattr(DeviceType, device),
        thread=1,
        time_range=SimpleNamespace(start=start, end=end),
        kernels=[SimpleNamespace(name=n, duration=d) for n, d in kernels],
        is_user_annotation=annotation,
    )


def test_a_range_that_shows_on_the_device_is_no_kernel():
    launches, total = launches_of(
        [
            _event("kf#3", 0, 50, kernels=[("kf#3", 40.0)]),
            _event("aten::relu", 1, 20, kernels=[("relu_kernel", 7.0)]),
            _event("aten::view", 21, 22),
            _event("relu_kernel", 30, 37, device="CUDA"),
            _event("kf#3", 30, 70, device="CUDA", annotation=True),
        ]
    )
    assert total == 7.0
    assert attribute(launches).samples == {3: [7.0]}


class _Capture:
    """An extension that captures nothing but two records, one of them without a payload."""

    def __init__(self):
        relu = {
            "overload": "aten::relu",
            "calls": 2,
            "payloads": [[torch.ones(3)]],
            "id": 5,
            "samples_ns": [1],
            "total_ns": 1,
        }
        self.records = [relu, {**relu, "payloads": [], "id": 6}]

    def capture_begin(self, payloads, size):
        assert payloads == 1 and size > 0

    def capture_end(self):
        return self.records


def test_without_kernel_records_each_call_is_timed_alone(monkeypatch):
    from kernelforge.referee import ruler

    calls = SimpleNamespace(eager=lambda samples, inner: [3e6, 1e6, 2e6])
    monkeypatch.setattr(ruler, "calls_of", lambda place, name, sets: calls)
    monkeypatch.setattr(Place, "forward_ms", lambda place, forward: 8.0)
    found = _device_time._alone(_Capture(), lambda: None, HOST, {})
    assert [r["samples_ns"] for r in found.records] == [[3e6, 1e6, 2e6], []]
    assert (found.timed_by, found.attributed) == ("events", 0.5)  # 2 calls of 2 ms in 8 ms


# ---- groups -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 31, 4096, 4097, 50_000])
def test_groups_in_chunks_are_the_groups(count):
    from kernelforge.referee.groups import Buckets

    chance = torch.Generator().manual_seed(count)
    x = torch.randn(count, generator=chance) * torch.exp2(torch.randint(-9, 9, (count,), generator=chance))
    x[::7] = 0.0
    error = torch.rand(count, generator=chance, dtype=torch.float64)
    plain, chunked = Buckets(x, chunked=False), Buckets(x, chunked=True)
    assert torch.equal(plain.amax(error), chunked.amax(error))
    torch.testing.assert_close(plain.sum(error), chunked.sum(error), rtol=1e-12, atol=0)
    assert torch.equal(plain.expand(plain.amax(error)), chunked.expand(chunked.amax(error)))
    assert chunked.nbytes > 0


# ---- questions with one wait ------------------------------------------------------------------------------------


def test_the_first_doubt_that_holds_is_told_and_only_it_is_put_into_words():
    from kernelforge.referee.doubts import Doubts

    def never():
        raise AssertionError("a question that is answered with no was put into words")

    doubts = Doubts()
    doubts.ask(torch.tensor(False), never, "values")
    doubts.ask(False, never, "values")
    doubts.ask(torch.tensor(True), lambda: "second", "inputs")
    doubts.ask(True, never, "values")
    assert doubts.first() == ("second", "inputs")
    assert Doubts().first() == ("", "")
    suspected = Doubts()
    suspected.ask(torch.tensor(True), lambda: "", "poison")  # a closer look found nothing
    assert suspected.first() == ("", "")
    suspected.ask(torch.tensor(True), lambda: "third", "values")
    assert suspected.first() == ("third", "values")


# ---- memory -----------------------------------------------------------------------------------------------------


class _OutOfMemory(RuntimeError):
    code = 9


def test_a_device_without_room_gets_a_second_attempt_with_everything_given_back(monkeypatch):
    monkeypatch.setattr(Place, "trim", lambda place: given.append("trim"))
    given, tries = [], []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise _OutOfMemory("make a buffer: no room")

    assert attempt(Place(0), make, lambda: given.append("references"))
    assert (len(tries), given) == (2, ["references", "trim"])

    def never():
        raise torch.OutOfMemoryError("CUDA out of memory")

    assert not attempt(Place(0), never)
    with pytest.raises(ValueError, match="another"):
        attempt(Place(0), lambda: (_ for _ in ()).throw(ValueError("another")))
    with pytest.raises(_OutOfMemory):  # the host has no cache to give back
        tries.clear()
        attempt(HOST, make)


def test_references_that_came_first_stay_where_not_all_fit():
    from calling import call_of
    from kernelforge.referee.cases import Variant
    from kernelforge.referee.held import References

    variant = Variant(call_of("aten::relu", [torch.randn(64)]), [torch.randn(64)], seed=1)
    held = References(HOST)
    cases = variant.inputs()
    first = held.get("v0", variant, cases[0])
    held._limit = held._bytes
    second = held.get("v0", variant, cases[2])
    assert held.get("v0", variant, cases[0]) is first
    assert held.get("v0", variant, cases[2]) is second  # the runs of one case follow each other
    held.get("v0", variant, cases[3])
    again = held.get("v0", variant, cases[2])
    assert again is not second
    assert torch.equal(again[0][0], second[0][0])
    assert held.get("v0", variant, cases[0]) is first
    held.clear(limit=0)
    assert held.get("v0", variant, cases[0]) is not first


def test_outputs_with_eagers_bits_are_digested_once_a_case(monkeypatch):
    from kernelforge.referee import held

    made: list[float] = []
    digest_of = held.digest_of
    monkeypatch.setattr(held, "digest_of", lambda outputs: made.append(1) or digest_of(outputs))
    digests, x, y = held.Digests(), torch.ones(3), torch.zeros(3)
    for as_eager in (True, True, False, False):
        assert digests.of(0, [x], as_eager=as_eager) == digest_of([x])
    assert len(made) == 3
    assert digests.of(1, [y], as_eager=True) == digest_of([y]) != digests.of(0, [x], as_eager=True)
    assert digests.of(0, [y], as_eager=False) == digest_of([y])


def test_a_swap_or_a_flipped_bit_gives_another_digest_from_sums_of_words():
    from kernelforge.referee.held import _sums

    x = torch.arange(1001, dtype=torch.float16)
    swapped, flipped = x.clone(), x.clone()
    swapped[[3, 700]] = swapped[[700, 3]]
    flipped.view(torch.int16)[1000] ^= 1
    assert _sums(x) == _sums(x.clone())
    assert len({tuple(_sums(t)) for t in (x, swapped, flipped, x[:1000].clone())}) == 4
    for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.float32, torch.int64):
        assert len(_sums(torch.ones(13, dtype=dtype))) == 3
    assert _sums(torch.ones(0)) == [0, 0, 0]


@pytest.mark.parametrize("numel", [8 * 4096, 8 * 4096 + 1, 9 * 4096 - 4, 3 * 4096])
def test_a_large_tensors_digest_is_made_of_the_same_sums(monkeypatch, numel: int):
    """By rows and columns, in place of a weight for each word."""
    from kernelforge.referee import held

    x = torch.randint(-(1 << 15), 1 << 15, (numel,), dtype=torch.int16)
    at_once = held._sums(x)
    monkeypatch.setattr(held, "_LARGE", 2 * held._ROW)
    assert held._sums(x) == at_once
    x[[5, 4101]] = x[[4101, 5]] ^ 1
    assert held._sums(x) != at_once


# ---- roof and whole model ---------------------------------------------------------------------------------------


def test_every_copy_takes_at_least_what_the_smallest_takes():
    roof = _roof.Roof([1 << 15, 1 << 30], [20.0, 4000.0], start_us=1.6)
    assert roof.us(1024) == 1.6
    assert roof.us(1 << 32) == pytest.approx((1 << 32) / 4000 / 1e3)
    assert roof.us(0) == 0.0


def test_a_model_that_cannot_be_captured_says_why_beside_its_times(monkeypatch):
    monkeypatch.setattr(Place, "forward_ms", lambda place, forward: forward())
    monkeypatch.setattr(_turns, "path", lambda _: "")  # of a device that is not here
    monkeypatch.setattr(
        _measure,
        "time_graphs",
        lambda *a, **k: (_ for _ in ()).throw(RuntimeError("operation not permitted\nmore")),
    )
    found = _measure.whole_model(
        lambda: 2.0, lambda on: None, blocks=6, seed=0, max_seconds=1.0, place=Place(0)
    )
    assert (found["ratio"], found["graph_ratio"], found["graph_why"]) == (
        1.0,
        None,
        "operation not permitted",
    )
    monkeypatch.setattr(_measure, "time_graphs", lambda *a, **k: _measure.from_pairs([4.0] * 6, [2.0] * 6))
    found = _measure.whole_model(
        lambda: 2.0, lambda on: None, blocks=6, seed=0, max_seconds=1.0, place=Place(0)
    )
    assert (found["graph_ratio"], found["graph_eager_ms"]) == (2.0, 4.0)
    assert "graph_ratio" not in _measure.whole_model(
        lambda: 2.0, lambda on: None, blocks=6, seed=0, max_seconds=1.0, place=HOST
    )


def test_a_profile_of_a_device_says_who_took_its_times_and_how_it_was():
    from kernelforge import _table

    state = {
        "clocks_sm_mhz": 1980,
        "power_w": 412.4,
        "temperature_c": None,
        "throttle": ["gpu_idle", "sw_power_cap"],
    }
    said = _table._device({"timed_by": "cupti", "telemetry": {"after": state}})
    assert said == [
        "device times from the profiler's kernel records; 1980 MHz, 412 W, throttled by sw_power_cap"
    ]
    said = _table._device({"timed_by": "events", "telemetry": {"after": {"why": "no telemetry: none"}}})
    assert said[0].endswith("no kernels; no telemetry: none")
    assert _table._device({"timed_by": "clock", "telemetry": None}) == []


# ---- packs ------------------------------------------------------------------------------------------------------

CUDA_PACK = {"target": "cuda", "pins": {"device": "NVIDIA H200"}}


def test_a_pack_for_a_gpu_in_a_process_without_one(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        PackFault, match="judged on `NVIDIA H200`, and this process does not have a CUDA device"
    ) as e:
        _pack.place_for(tmp_path, CUDA_PACK)
    assert "CUDA_VISIBLE_DEVICES" in e.value.hint
    assert _pack.place_for(tmp_path, {"pins": {}}) == HOST


@pytest.fixture
def two_gpus(monkeypatch):
    names = ["NVIDIA H100", "NVIDIA H200"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: names[i])


def test_a_pack_serves_on_the_device_that_it_was_judged_on(two_gpus, tmp_path):
    assert _pack.place_for(tmp_path, CUDA_PACK) == Place(1)
    assert _pack.place_for(tmp_path, CUDA_PACK, "cuda:0") == Place(0)
    assert _pack.place_for(tmp_path, {"target": "cuda", "pins": {"device": "NVIDIA B200"}}) == Place(0)
    with pytest.raises(PackFault, match="does not have the CUDA device `cuda:7`"):
        _pack.place_for(tmp_path, CUDA_PACK, "cuda:7")


def test_a_pack_of_another_gpu_says_that_its_code_is_for_that_architecture(tmp_path):
    with pytest.raises(PackFault, match="device `NVIDIA H200` \\(this process has `NVIDIA A100`\\)") as e:
        _pack.check_pins(tmp_path, CUDA_PACK, {"device": "NVIDIA A100"})
    assert "runs on its architecture only" in e.value.hint


# ---- samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("once_ns", "sets", "place", "inner"),
    [
        (1e6, 10, HOST, 1),
        (1e3, 10, HOST, 200),
        (1e6, 10, Place(0), 10),  # a pass over all sets
        (1e4, 10, Place(0), 20),
        (5e6, 10, Place(0), 1),  # a pass would take 50 ms
        (1e3, 500, Place(0), 200),
    ],
)
def test_a_sample_is_long_enough_and_on_a_device_a_pass_over_all_sets(once_ns, sets, place, inner):
    from kernelforge.referee.ruler import inner_for

    assert inner_for(once_ns, sets, place) == inner


class _Graph:
    """A CUDA graph as far as a capture goes; `broken`: its capture cannot be ended well."""

    def __init__(self, broken=False):
        self.broken, self.log = broken, []

    def capture_begin(self, **how):
        self.log.append(("begin", how))

    def capture_end(self):
        self.log.append("end")
        if self.broken:
            raise RuntimeError("the capture was broken off")


def test_a_capture_that_fails_is_ended_and_torch_set_right(monkeypatch):
    mended = []
    monkeypatch.setattr(Place, "mend_capture", lambda self: mended.append(self))
    begin = ("begin", {"pool": 7, "capture_error_mode": "thread_local"})
    good, broken, left = _Graph(), _Graph(broken=True), _Graph(broken=True)
    with Place(0).capturing(good, 7):
        pass
    assert (good.log, mended) == ([begin, "end"], [])
    with pytest.raises(RuntimeError, match="broken off"), Place(0).capturing(broken, 7):
        pass
    assert (broken.log, mended) == ([begin, "end", "end"], [Place(0)])
    with pytest.raises(ValueError, match="inside"), Place(0).capturing(left, 7):
        raise ValueError("inside")
    assert (left.log, mended) == ([begin, "end"], [Place(0)] * 2)
