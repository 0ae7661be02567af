"""Guard fuzz (bench/guard.py): a seeded sample of its calls, and that it sees what it is there to see: wrong plans, wide guards, crashes, hangs."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def guard(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("bench_guard", BENCH / "guard.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(1800)
def test_every_call_is_eagers_and_every_fall_back_has_a_reason(guard, tmp_path):
    seed = int(os.environ.get("KF_SEED", "1"))  # a failure says the call and its seed
    data = guard.measure("host", 1500, seed, 1500, out=tmp_path / "guard.json", few=True)
    assert data["failures"] == []
    assert (data["guard_calls"], data["wrong"], data["crashes"]) == (1500, 0, 0)
    assert data["served"] >= 300
    assert data["reasons"].keys() >= {
        "no_match",
        "key_set",
        "dtype",
        "empty",
        "overlap",
        "alignment",
        "threads",
        "settings",
        "deterministic",
    }
    hooked = {row["overload"] for row in guard_table()}
    assert data["by_op"].keys() == hooked
    assert sum(op["served"] > 0 for op in data["by_op"].values()) >= 60
    assert json.loads((tmp_path / "guard.json").read_text()) == data


def guard_table():
    from kernelforge import _ext

    return _ext.load().op_table()


def test_a_context_that_a_call_has_lost_ends_its_process_as_a_signal_does(guard):
    assert guard.ended(-11) and guard.ended(guard.LOST)
    assert not guard.ended(0) and not guard.ended(1)  # an error that Python told


# ---- it sees what it is there to see ---------------------------------------------------------------------------------


@pytest.fixture
def small(guard, clean):
    """A checker of relu alone, whose plan's body a test gives."""
    import guard_calls
    from guard_check import Checker

    import handmade
    from kernelforge import _ext

    base = next(b for b in guard_calls.bases("cpu") if b.name == "aten::relu" and b.maker == "hand")

    def make(body, **changes):
        kernel = handmade.kernel(base.call, body, "out0_numel")
        plan = handmade.plan_json(base.call, kernel, **changes)
        opened = _ext.load().plan_open(plan, handmade.image(kernel.source()), "cpu")
        _ext.load().publish([opened])
        return Checker([base], [opened], "cpu")

    yield make
    _ext.load().unpublish()


def found(checker, calls=60):
    return [f["wrong"] for n in range(calls) if (f := checker.check(3, n))["wrong"]]


def test_a_right_plan_is_served_and_nothing_is_found(small):
    checker = small("    out0[i] = self[i] < 0 ? 0 : self[i];")
    assert found(checker) == []
    assert any(checker.check(3, n)["hits"] for n in range(60))


def test_a_wrong_value_of_one_element_is_found(small):
    wrong = found(small("    out0[i] = self[i] < 0 ? 0 : self[i] * (i == 7 ? 1.0001f : 1);"))
    assert wrong and all("is not eager's by the rule" in w for w in wrong)


def test_a_changed_input_is_found(small):
    body = "    out0[i] = self[i] < 0 ? 0 : self[i]; if (i == 0) self[3] += 1;"
    assert any("value" in w for w in found(small(body)))


def test_a_guard_that_is_wider_than_its_plan_is_found(small):
    """The checker knows each plan's call from the bases: here it is told of another one."""
    checker = small("    out0[i] = self[i] < 0 ? 0 : self[i];")
    (plan,) = checker._call_of
    checker._call_of = {plan: checker._call_of[plan].replace("relu", "silu")}
    checker._plan_of = {}
    assert any("served a call that is not its own" in w for w in found(checker))


def test_a_plan_that_does_not_serve_its_own_call_is_found(small):
    from kernelforge import _ext

    checker = small("    out0[i] = self[i] < 0 ? 0 : self[i];")
    _ext.load().unpublish()
    assert any("fell back" in w for w in found(checker))


def test_differences_of_every_kind_are_told(guard):
    from guard_check import Run, _differs, _facts, close

    x = torch.tensor([1.0, float("nan"), -0.0])

    def run(t, memory=None):
        return Run(
            facts=[_facts(t)],
            values=[t],
            memory=[memory if memory is not None else torch.zeros(3, dtype=torch.uint8)],
        )

    assert _differs(run(x), run(x.clone()), run(x), None) == ""
    for other in (x.double(), x.reshape(1, 3), x.requires_grad_(), torch._neg_view(x.detach())):
        assert "tensor 0 is" in _differs(run(other), run(x.detach()), run(x.detach()), None)
    x = x.detach()
    assert "the bits of a zero" in _differs(run(x * torch.tensor([1, 1, -1])), run(x), run(x), None)
    assert "value 0 differs" in _differs(run(x + 1), run(x), run(x), None)
    assert _differs(run(x + 1), run(x), run(x), None, lambda v: True) == ""
    written = run(x, torch.ones(3, dtype=torch.uint8))
    assert "memory beside" in _differs(written, run(x), run(x), None)
    assert "memory beside" in _differs(written, run(x), run(x), None, lambda v: True)  # values by chance
    assert _differs(written, run(x), run(x), None, beside=True) == ""
    assert "eager `ValueError: b`" in _differs(
        Run(error="ValueError: a"), Run(error="ValueError: b"), Run(), None
    )
    assert _differs(Run(error="ValueError: a"), run(x), run(x), None)
    assert not close(torch.tensor([1.0]), torch.tensor([1.0001]), 1.0)
    assert not close(torch.tensor([1.0]), torch.tensor([float("inf")]), 1.0)
    assert close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]), 1.0)


def test_memory_beside_the_elements_is_what_no_element_has_ever_had(guard):
    """One `out` for two results holds the rest of the first one beside the second: with a plan that is as near to eager's as the plan is."""
    from guard_check import Run, look
    from guard_memory import extents_of

    from kernelforge import disabled as eager_alone

    def after(value, beside):
        room = torch.zeros(12)
        t = room[2:10].view(2, 4)
        found = Run(given=[t], lay=extents_of([t]))
        torch.ops.aten.native_group_norm.out(
            torch.full((2, 4, 1), value), None, None, 2, 4, 1, 1, 1e-5, out0=t, out1=torch.empty(2, 1), out2=t
        )
        assert t.shape == (2, 1)
        room[-1] = beside
        with eager_alone():
            look(found)
        (memory,) = found.memory
        return memory.view(torch.float32)

    assert torch.equal(after(1.0, 0.0), torch.zeros(12))
    assert torch.equal(after(1.0, 3.0)[2:], torch.tensor([0.0] * 9 + [3.0]))


def test_the_same_number_makes_the_same_call(guard):
    import guard_calls
    from guard_check import draft_of

    bases = guard_calls.bases("cpu")
    for number in range(0, 400, 7):
        a, b = draft_of(bases, "cpu", 5, number), draft_of(bases, "cpu", 5, number)
        assert (a.call, a.notes, a.way) == (b.call, b.notes, b.way)
        for x, y in zip(a.tensors(), b.tensors(), strict=True):
            assert type(x) is type(y)
            if type(x) is torch.Tensor and x.layout is torch.strided and not x.is_meta and not x.is_nested:
                assert x.data_ptr() % 16 == y.data_ptr() % 16
                assert x.stride() == y.stride()


def test_elements_that_share_memory_have_room_for_all_of_them(guard):
    """Eager's log_softmax fills such an `out` as if it were contiguous, and ended the process some calls later."""
    import guard_changes

    d = {"dtype": "float32", "sizes": [2, 4, 8, 8], "strides": [0, 64, 8, 1]}
    t = guard_changes._tensor("out", d, torch.Generator().manual_seed(0), "cpu")
    assert t.stride() == (0, 64, 8, 1) and t.untyped_storage().nbytes() == 4 * 512
    moved = guard_changes.shifted(t, 4, whole=True)
    assert torch.equal(moved, t) and moved.untyped_storage().nbytes() == 4 * 513
    assert torch.equal(guard_changes.shifted(t, 3, whole=False), t)
    assert guard_changes._rooms[-1].numel() >= 4 * 512


def test_a_quantized_tensor_keeps_its_place(guard):
    """One that torch makes at an address has no quantizer, and its first view ended the process (number 6209 of seed 1, with all templates)."""
    import guard_changes

    quantized = torch.quantize_per_tensor(torch.randn(4), 0.1, 10, torch.quint8)
    assert guard_changes.shifted(quantized, 3, whole=False) is quantized


# ---- a child that dies ------------------------------------------------------------------------------------------------

CHILD = """
import json, os, sys, time
if "--alone" in sys.argv:
    os.kill(os.getpid(), ALONE)
first, calls = int(sys.argv[sys.argv.index("--first") + 1]), 6
print(json.dumps({"begin": -1}), flush=True)
for n in range(first, calls):
    print(json.dumps({"begin": n, "overload": "aten::relu"}), flush=True)
    if n > 2:
        print(json.dumps({"notes": ["strides"]}), flush=True)
    if n == 2:  # while its call is drawn
        os.kill(os.getpid(), 11)
    if n == 4:
        time.sleep(60)
    print(json.dumps({"done": n, "overload": "aten::relu", "notes": ["size"], "error": "", "hits": n % 2, "reasons": {"empty": 1}, "wrong": ""}), flush=True)
"""


def test_a_crash_and_a_hang_are_counted_and_the_rest_is_made(guard, tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    child.write_text(CHILD.replace("ALONE", "0"))
    monkeypatch.setattr(guard, "CALL_SECONDS", 5.0)
    args = guard.parser().parse_args(["--calls", "6", "--seed", "9"])
    result = guard.Result(
        tmp_path / "r.json", {"seed": 9, "target": "host", "jobs": 1, "build": "x"}, fresh=True
    )
    guard.fuzz(result, args, [sys.executable, str(child)])
    data = json.loads((tmp_path / "r.json").read_text())
    assert (data["guard_calls"], data["crashes"], data["wrong"], data["next"]) == (6, 2, 0, [6])
    assert data["reasons"] == {"empty": 4}
    assert data["by_op"] == {
        "aten::relu": {
            "calls": 6,
            "served": 3,
            "reasons": {"empty": 4},
            "wrong": 0,
            "crashes": 2,
            "eager_crashes": 0,
        }
    }
    crash, hang = data["failures"]
    assert "ended with code -11" in crash["detail"] and crash["again"].endswith("--seed 9 --only 2")
    assert "no answer in 5 s" in hang["detail"]
    assert (crash["changes"], hang["changes"]) == ([], ["strides"])
    again = guard.Result(
        tmp_path / "r.json", {"seed": 9, "target": "host", "jobs": 1, "build": "x"}, fresh=False
    )
    assert again.data["next"] == [6]
    other = guard.Result(
        tmp_path / "r.json", {"seed": 9, "target": "host", "jobs": 1, "build": "y"}, fresh=False
    )
    assert other.data["next"] == [0]


def test_a_crash_of_torch_alone_is_told_apart(guard, tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    child.write_text(CHILD.replace("ALONE", "11"))
    args = guard.parser().parse_args(["--calls", "3"])
    result = guard.Result(
        tmp_path / "r.json", {"seed": 1, "target": "host", "jobs": 1, "build": "x"}, fresh=True
    )
    guard.fuzz(result, args, [sys.executable, str(child)])
    assert (result.data["guard_calls"], result.data["crashes"], result.data["eager_crashes"]) == (3, 0, 1)
    assert result.data["failures"] == []


def test_a_child_that_never_begins_is_an_error_and_no_crash(guard, tmp_path):
    args = guard.parser().parse_args(["--calls", "6"])
    result = guard.Result(
        tmp_path / "r.json", {"seed": 1, "target": "host", "jobs": 1, "build": "x"}, fresh=True
    )
    with pytest.raises(RuntimeError, match="ended with code 3 before its next call"):
        guard.fuzz(result, args, [sys.executable, "-c", "raise SystemExit(3)"])
    assert result.data["crashes"] == 0


def test_a_ctrl_c_ends_every_lane_and_is_no_crash(tmp_path):
    """Their children do not hear it, are ended, and what they were about is made again."""
    child, there = tmp_path / "child.py", tmp_path / "there"
    there.mkdir()
    child.write_text(
        CHILD.replace("n == 4", "n == 1").replace(
            "        time.sleep(60)", f"        open(f'{there}/{{os.getpid()}}', 'w'); time.sleep(600)"
        )
    )
    caller = f"""
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
sys.path.insert(0, {str(BENCH)!r})
import guard
args = guard.parser().parse_args(["--calls", "6", "--jobs", "2"])
result = guard.Result(Path({str(tmp_path / "r.json")!r}), {{"seed": 1, "target": "host", "jobs": 2, "build": "x"}}, fresh=True)
guard.fuzz(result, args, [sys.executable, {str(child)!r}])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", caller], process_group=0, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while len(list(there.iterdir())) < 2:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    try:
        assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
    finally:
        process.kill()
    data = json.loads((tmp_path / "r.json").read_text())
    assert (data["crashes"], data["eager_crashes"], data["failures"], data["next"]) == (0, 0, [], [2, 1])
    for one in there.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(one.name), 0)
