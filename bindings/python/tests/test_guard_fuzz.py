"""Guard fuzz (bench/guard.py): a seeded sample of its calls, and that it sees what it is there to see: wrong plans, wide guards, crashes, hangs."""

import copy
import importlib.util
import json
import os
import random
import subprocess
import sys
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


@pytest.mark.parametrize(
    "name, slots, chance",
    [
        ("aten::upsample_nearest2d.out", (0, 1), True),
        ("aten::relu.out", (0, 1), False),
        ("aten::add.Tensor", (0, 1), False),
    ],
)
def test_a_race_of_eagers_own_is_known_by_its_overload(guard, name, slots, chance):
    import guard_calls
    import guard_eager
    from guard_changes import Draft

    base = next(b for b in guard_calls.bases("cpu") if b.name == name)
    draft = Draft(base.call, "cpu", random.Random(0))
    assert not guard_eager.undefined(draft)
    draft.shared[slots[1]] = (slots[0], "same")
    assert guard_eager.undefined(draft) == chance


def test_a_batch_norm_that_reads_past_a_parameter_is_known(guard):
    import guard_calls
    import guard_eager
    from guard_changes import Draft

    base = next(b for b in guard_calls.bases("cpu") if b.name == "aten::_native_batch_norm_legit_no_training")
    draft = Draft(copy.deepcopy(base.call), "cpu", random.Random(0))
    assert not guard_eager.undefined(draft)
    draft.slots()[draft.slot_names().index("weight")]["sizes"] = [0]
    assert guard_eager.undefined(draft)


BROKEN = {
    "reads past a list": """
x, w, seen = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3), set()
for i in range(300):
    kept = [torch.randn(i % 7 + 1) for _ in range(3)]
    try:
        torch.ops.aten._nnpack_spatial_convolution(x, w, None, [1], [1, 1])
    except RuntimeError as e:
        seen.add(str(e)[:90])
assert len(seen) < 2, seen
""",
    "reads no statistics": """
c = torch.rand(4)
torch.ops.aten._native_batch_norm_legit_no_training(torch.randn(2, 4, 8, 8), c, c, c, torch.empty(0), 0.1, 1e-5)
""",
    "shares a fake mode": """
import logging, threading
from torch._subclasses.fake_tensor import FakeTensorMode
logging.disable()
failed = []
def work(x):
    try:
        for _ in range(3):
            torch.ops.aten.hardtanh(x, -1.0, 1.0)
    except AssertionError as e:
        failed.append(str(e))
for _ in range(600):
    x = FakeTensorMode().from_tensor(torch.randn(4, 33))
    threads = [threading.Thread(target=work, args=(x,)) for _ in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not failed, failed
""",
}


@pytest.mark.parametrize("how", sorted(BROKEN))
def test_torch_alone_breaks_at_what_is_not_called(guard, how):
    """Without kernelforge in the process, and with glibc's checks of memory, which fill what is freed."""
    if how == "reads past a list" and not torch.backends.nnpack.is_available():
        pytest.skip("torch has no NNPACK on this processor")
    checks = {"LD_PRELOAD": "libc_malloc_debug.so.0", "GLIBC_TUNABLES": "glibc.malloc.check=3"}
    there = subprocess.run(["true"], env={**os.environ, **checks}, capture_output=True, check=True)
    if there.stderr:  # the loader's: it found no such library
        pytest.skip(f"no malloc checks: {there.stderr!r}")
    done = subprocess.run(
        [sys.executable, "-c", "import torch\ntorch.set_num_threads(1)\n" + BROKEN[how]],
        env={**os.environ, **checks},
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0, f"torch does what was thought to break it: drop the rule `{how}`"


@pytest.mark.parametrize(
    "how, name, argument, value",
    [
        ("reads past a list", "aten::_nnpack_spatial_convolution", "padding", [1]),
        ("reads past a list", "aten::_nnpack_spatial_convolution.out", "stride", [1]),
        ("reads no statistics", "aten::_native_batch_norm_legit_no_training", "running_var", [0]),
        ("reads no statistics", "aten::native_batch_norm", "running_mean", [0]),
    ],
)
def test_a_call_that_breaks_torch_is_known(guard, how, name, argument, value):
    import guard_calls
    import guard_eager
    from guard_changes import Draft

    base = next(b for b in guard_calls.bases("cpu") if b.name == name)
    draft = Draft(copy.deepcopy(base.call), "cpu", random.Random(0))
    assert guard_eager.breaks(draft) == ""
    changed = next(a for a in draft.call["args"] if a["name"] == argument)
    changed["sizes" if changed["kind"] == "tensor" else "value"] = value
    assert guard_eager.breaks(draft) == how


def test_no_call_of_the_fuzz_breaks_torch(guard):
    """Of these numbers at least one would have; it is its base's call instead."""
    import guard_calls
    import guard_eager
    from guard_check import draft_of

    bases = guard_calls.bases("cpu")
    made = [draft_of(bases, "cpu", 1, n) for n in range(3000)]
    assert [d.notes for d in made if guard_eager.breaks(d)] == []
    assert any(note.startswith("torch ") for d in made for note in d.notes)


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
    assert "memory beside" in _differs(run(x, torch.ones(3, dtype=torch.uint8)), run(x), run(x), None)
    assert "eager `ValueError: b`" in _differs(
        Run(error="ValueError: a"), Run(error="ValueError: b"), Run(), None
    )
    assert _differs(Run(error="ValueError: a"), run(x), run(x), None)
    assert not close(torch.tensor([1.0]), torch.tensor([1.0001]), 1.0)
    assert not close(torch.tensor([1.0]), torch.tensor([float("inf")]), 1.0)
    assert close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]), 1.0)


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


# ---- a child that dies ------------------------------------------------------------------------------------------------

CHILD = """
import json, os, sys, time
if "--alone" in sys.argv:
    os.kill(os.getpid(), ALONE)
first, calls = int(sys.argv[sys.argv.index("--first") + 1]), 6
print(json.dumps({"begin": -1}), flush=True)
for n in range(first, calls):
    print(json.dumps({"begin": n, "overload": "aten::relu"}), flush=True)
    if n == 2:
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
