"""Capture: what a call was, who owns it, what it cost, and copies of its arguments that reproduce it."""

import threading

import pytest
import torch
import torch.nn.functional as F

from kernelforge import reach
from serving import close, device, ext, hits, serving

torch.manual_seed(1)
X = torch.randn(4, 6)
SAMPLES = reach.samples(device())


def capture(function, payloads=0, payload_bytes=1 << 24):
    module = ext()
    module.capture_begin(payloads, payload_bytes)
    try:
        function()
    finally:
        records = module.capture_end()
    return records


def test_outermost_hooked_call_owns_the_record():
    """relu calls clamp_min, and mean calls sum, div and copy_ on the CPU: one record each, the rest are children."""
    relu, mean = capture(lambda: (torch.relu(X), X.mean(1)))
    assert relu["overload"] == "aten::relu"
    assert relu["children"] == ["aten::clamp_min"]
    assert mean["overload"] == "aten::mean.dim"
    assert "aten::sum.IntList_out" in mean["children"]


def test_one_record_for_each_distinct_call_with_its_count_and_times():
    records = capture(lambda: [torch.relu(X) for _ in range(5)] + [torch.relu(X[:2])])
    assert [(r["overload"], r["calls"]) for r in records] == [("aten::relu", 5), ("aten::relu", 1)]
    for r in records:
        assert len(r["samples_ns"]) == r["calls"]
        assert sum(r["samples_ns"]) == r["total_ns"] > 0


def test_call_follows_the_format():
    (r,) = capture(lambda: F.layer_norm(X, (6,), eps=1e-6))
    assert r["call"] == {
        "overload": "aten::native_layer_norm",
        "args": [
            {"name": "input", "kind": "tensor", "dtype": "float32", "sizes": [4, 6], "strides": [6, 1]},
            {"name": "normalized_shape", "kind": "ints", "value": [6]},
            {"name": "weight", "kind": "none"},
            {"name": "bias", "kind": "none"},
            {"name": "eps", "kind": "float", "value": 1e-6, "bits": "3eb0c6f7a0b5ed8d"},
        ],
        "outputs": [
            {"dtype": "float32", "sizes": [4, 6], "strides": [6, 1], "alias": -1},
            {"dtype": "float32", "sizes": [4, 1], "strides": [1, 1], "alias": -1},
            {"dtype": "float32", "sizes": [4, 1], "strides": [1, 1], "alias": -1},
        ],
    }


def test_special_floats_have_names():
    (r,) = capture(lambda: torch.clamp(X, -float("inf"), float("inf")))
    assert [a["value"] for a in r["call"]["args"][1:]] == ["-inf", "inf"]
    assert r["call"]["args"][2]["bits"] == "7ff0000000000000"


def test_dtype_argument_has_torchs_name():
    (r,) = capture(lambda: torch.sum(X, 1, dtype=torch.float64))
    assert r["call"]["args"][-1] == {"name": "dtype", "kind": "dtype", "value": "float64"}
    assert r["call"]["outputs"][0]["dtype"] == "float64"


@pytest.mark.parametrize(
    ("tensor", "layout"),
    [
        (torch.randn(2, 3, 4, 5), "contiguous"),
        (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "channels_last"),
        (torch.randn(2, 3, 4, 5)[..., ::2], "strided"),
    ],
)
def test_layout_is_of_the_first_tensor(tensor, layout):
    (r,) = capture(lambda: torch.relu(tensor))
    assert r["layout"] == layout


def test_alignment_is_the_least_seen():
    buffer = torch.randn(64)
    (r,) = capture(lambda: (torch.relu(buffer[:32]), torch.relu(buffer[1:33])))
    assert r["align"] == [4]


def test_grad_is_noted():
    x = X.clone().requires_grad_()
    (r,) = capture(lambda: torch.relu(x))
    assert r["grad"]
    with torch.no_grad():
        (r,) = capture(lambda: torch.relu(x))
    assert not r["grad"]


def test_composite_is_captured_as_such_under_inference_mode():
    with torch.inference_mode():
        (r,) = capture(lambda: F.rms_norm(X, (6,)))
    assert r["overload"] == "aten::_fused_rms_norm"
    assert r["composite"]
    with torch.no_grad():
        assert "aten::_fused_rms_norm" not in [r["overload"] for r in capture(lambda: F.rms_norm(X, (6,)))]


def test_max_pool_is_captured_whole_under_inference_mode_and_as_its_leaf_elsewhere():
    x = torch.randn(1, 2, 4, 4)
    with torch.inference_mode():
        (r,) = capture(lambda: F.max_pool2d(x, 2))
    assert r["overload"] == "aten::max_pool2d" and r["composite"]
    assert r["children"] == ["aten::max_pool2d_with_indices"]
    assert [o["dtype"] for o in r["call"]["outputs"]] == ["float32"]
    with torch.no_grad():
        (r,) = capture(lambda: F.max_pool2d(x, 2))
    assert r["overload"] == "aten::max_pool2d_with_indices"
    assert [o["dtype"] for o in r["call"]["outputs"]] == ["float32", "int64"]


# ---- payloads -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overload", sorted(SAMPLES))
def test_payload_reproduces_the_call(overload):
    """The copied arguments, passed to the same overload by `call`, make the same call words and the same outputs."""
    sample = SAMPLES[overload]
    function, arguments = sample.function(), sample.arguments()
    with torch.inference_mode():
        try:
            records = capture(lambda: function(*arguments), payloads=1)
        except RuntimeError:
            pytest.skip(f"torch refuses {sample.text} here")
        for r in records:
            again = capture(lambda r=r: ext().call(r["overload"], r["payloads"][0]), payloads=1)
            assert [a["call"] for a in again] == [r["call"]]


def test_payload_is_the_argument_before_the_call():
    x = X.clone()
    (r,) = capture(lambda: x.relu_(), payloads=1)
    assert torch.equal(r["payloads"][0][0], X)
    assert torch.equal(x, X.clamp(min=0))


def test_payload_keeps_strides_and_overlaps():
    expanded, sliced = torch.randn(4, 1).expand(4, 6), torch.randn(4, 12)[:, ::2]
    first, second = capture(lambda: (torch.relu(expanded), torch.relu(sliced)), payloads=1)
    for r, t in ((first, expanded), (second, sliced)):
        copy = r["payloads"][0][0]
        assert torch.equal(copy, t)
        assert copy.stride() == t.stride()
        assert copy.data_ptr() != t.data_ptr()


def test_payload_of_a_python_scalar_is_a_python_scalar():
    records = capture(lambda: (X + 0.5, X * 2, X * True), payloads=1)
    assert [(type(r["payloads"][0][1]), r["payloads"][0][1]) for r in records] == [
        (float, 0.5),
        (int, 2),
        (bool, True),
    ]


def test_payloads_are_bounded_in_number_and_bytes():
    (r,) = capture(lambda: [torch.relu(X) for _ in range(5)], payloads=2)
    assert len(r["payloads"]) == 2
    room = 2 * X.numel() * 4
    records = capture(
        lambda: [torch.relu(X), torch.relu(X[:3]), torch.relu(X[:, :2])], payloads=1, payload_bytes=room
    )
    assert [len(r["payloads"]) for r in records] == [
        1,
        1,
        0,
    ]  # 96 + 72 bytes; a slice of 6 columns spans 80 bytes
    (r,) = capture(lambda: torch.relu(X))
    assert r["payloads"] == []


def test_payload_asks_for_no_gradient():
    x = X.clone().requires_grad_()
    (r,) = capture(lambda: torch.relu(x), payloads=1)
    assert not r["payloads"][0][0].requires_grad


# ---- scope --------------------------------------------------------------------------------------------------------------------------


def test_nothing_is_served_while_capturing():
    with serving(lambda: torch.relu(X)):
        (r,) = capture(lambda: torch.relu(X))
        assert r["calls"] == 1
        assert hits("aten::relu") == 0


def test_capture_sees_all_threads_but_those_that_are_off():
    def run():
        thread = threading.Thread(target=lambda: torch.relu(X))
        with ext().thread_off():
            thread.start()
            thread.join()
            torch.tanh(X)

    assert [r["overload"] for r in capture(run)] == ["aten::relu"]


def test_a_call_that_raises_is_not_recorded_and_closes_its_scope():
    def run():
        with pytest.raises(RuntimeError):
            torch.add(torch.randn(2), torch.randn(3))
        torch.relu(X)

    assert [r["overload"] for r in capture(run)] == ["aten::relu"]


def test_backward_runs_are_captured_below_autograd():
    x = X.clone().requires_grad_()
    records = capture(lambda: (x.sigmoid() * x).sum().backward())
    assert {"aten::sigmoid", "aten::mul.Tensor"} <= {r["overload"] for r in records}


# ---- discovery and trace ------------------------------------------------------------------------------------------------------------


def test_discovery_names_every_operator_and_says_which_are_hooked():
    ext().discovery_begin()
    F.softmax(torch.sort(X).values, -1)
    found = {d["name"]: d for d in ext().discovery_end()}
    assert found["aten::sort"]["hooked"] is False
    assert found["aten::_softmax"]["hooked"] is True
    outer, inner = found["aten::softmax.int"], found["aten::_softmax"]
    assert outer["calls"] == inner["calls"] == 1
    assert outer["total_ns"] == outer["self_ns"] + inner["total_ns"]
    ext().discovery_begin()
    assert ext().discovery_end() == []


def test_trace_tells_in_order_what_was_served_and_why_not():
    y = torch.randn(3)
    with serving(lambda: torch.relu(X)):
        ext().trace_begin()
        torch.relu(y)
        torch.relu(X)
        torch.tanh(X)
        trace = ext().trace_end()
        assert hits("aten::relu") == 1
    told = [(t["overload"], t["depth"], t["reason"]) for t in trace]
    assert told == [
        ("aten::relu", 0, "no_match"),
        ("aten::clamp_min", 1, "no_plan"),
        ("aten::relu", 0, None),
        ("aten::tanh", 0, "no_plan"),
    ]
    assert trace[2]["plan"].startswith("p-")
    assert trace[2]["call"]["args"][0]["sizes"] == [4, 6]
    assert trace[0]["plan"] is None


def test_trace_gives_reasons_of_unservable_calls():
    ext().trace_begin()
    torch.relu(torch.empty(0))
    F.batch_norm(torch.randn(8, 4), torch.zeros(4), torch.ones(4), training=True)
    trace = ext().trace_end()
    reasons = {t["overload"]: t["reason"] for t in trace if t["depth"] == 0}
    assert reasons["aten::native_batch_norm"] in ("rule", "no_plan")
    assert reasons["aten::relu"] in ("empty", "no_plan")


def test_traced_result_is_served_result():
    with serving(lambda: torch.relu(X), lambda: X.clone().relu_()):
        ext().trace_begin()
        x = X.clone()
        got, same = torch.relu(X), x.relu_()
        ext().trace_end()
        assert hits("aten::relu") == hits("aten::relu_") == 1
    assert same is x
    close(got, X.clamp(min=0))
    close(x, X.clamp(min=0))
