"""What of eager's own the guard fuzz holds nobody to (bench/guard_eager.py): calls whose values are chance, and calls that break torch, which are not made."""

import copy
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


def test_what_attention_and_cudnn_leave_to_chance_is_known(guard):
    import guard_calls
    import guard_eager
    from guard_changes import Draft

    def drafted(name, *notes):
        base = next(b for b in guard_calls.bases("cpu") if b.name == name)
        return Draft(copy.deepcopy(base.call), "cpu", random.Random(0), list(notes))

    state, value = torch.zeros(2, dtype=torch.int64), torch.zeros(2)
    attention = "aten::_scaled_dot_product_flash_attention"
    of_attention = guard_eager.chance(drafted(attention))
    assert (
        of_attention(state)
        and not of_attention(value)
        and not of_attention(torch.zeros(2, 2, dtype=torch.int64))
    )
    assert guard_eager.chance(drafted(attention, "backward"))(value)
    assert not guard_eager.chance(drafted("aten::relu", "backward"))(state)
    convolution = "aten::cudnn_convolution_relu"
    assert not guard_eager.chance(drafted(convolution))(value)
    assert guard_eager.chance(drafted(convolution, "dtype"))(value)


def test_a_plan_behind_a_quantized_call_may_be_a_step_off(guard):
    import guard_calls
    import guard_check

    base = next(b for b in guard_calls.bases("cpu") if b.name == "aten::relu")
    draft = guard_check.Draft(copy.deepcopy(base.call), "cpu", random.Random(0), ["quantized"])
    judge = guard_check._judge(draft, guard_check.Run(error="no bounds"))
    steps = torch.tensor([6, 7], dtype=torch.uint8)
    assert judge(0, steps, torch.tensor([7, 7], dtype=torch.uint8)) == ""
    assert judge(0, steps, torch.tensor([6, 9], dtype=torch.uint8)) == "beyond a step"
    for indices in (torch.tensor([6, 7]), torch.tensor([True, False])):  # an index, or a truth, has no steps
        assert judge(0, indices, indices.flip(0)) == "beyond a few roundings"
    draft.notes.clear()
    assert judge(0, steps, torch.tensor([7, 7], dtype=torch.uint8)) == "beyond a few roundings"


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
        ("reads past lists", "aten::cudnn_convolution", "padding", [1]),
        ("reads past lists", "aten::cudnn_convolution_relu", "weight", [4, 3, 3]),
        ("reads past lists", "aten::cudnn_convolution_transpose.out", "self", [1, 2, 4, 8, 8]),
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
