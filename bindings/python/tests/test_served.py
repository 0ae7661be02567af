"""Every hooked overload that the CPU has is captured, and served by a real kernel with eager's outputs: values, dtype and strides."""

import pytest
import torch

from handmade_kernels import KERNELS
from kernelforge import reach
from serving import close, device, eager, ext, fallbacks, hits, plans_for, published

SAMPLES = reach.samples(device())
# An out argument without elements is an empty tensor: such a call runs on eager.
EMPTY_OUT = {
    "cpu": {
        f"aten::{n}.out"
        for n in ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training")
    },
    "cuda": set(),
}[device()]
SERVED = sorted(s for s in SAMPLES if s in KERNELS and s not in EMPTY_OUT)


def flat(value):
    return list(value) if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize("overload", SERVED)
def test_overload_is_served_with_eagers_result(overload):
    sample = SAMPLES[overload]
    function = sample.function()
    with torch.inference_mode():
        plans = plans_for(lambda: function(*sample.arguments()), only=overload)
        with eager():
            ours, theirs = sample.arguments(), sample.arguments()
            expected = flat(function(*theirs))
        with published(plans):
            got = flat(function(*ours))
            assert hits(overload) == 1
            assert fallbacks(overload) == {}
    close(got, expected)
    close(ours, theirs)  # in-place and out forms wrote the same; nothing else was touched


@pytest.mark.parametrize("overload", sorted(EMPTY_OUT))
def test_empty_out_argument_runs_on_eager(overload):
    sample = SAMPLES[overload]
    function = sample.function()
    base = SAMPLES[overload.removesuffix(".out")]
    with torch.inference_mode():
        ext().capture_begin(0, 0)
        function(*sample.arguments())
        assert overload not in {r["overload"] for r in ext().capture_end()}
        with published(plans_for(lambda: base.function()(*base.arguments()))):
            function(*sample.arguments())
            assert hits(overload) == 0


def test_every_overload_with_a_cpu_kernel_has_a_sample():
    """What has no sample has no kernel of its own on the CPU: it is for CUDA."""
    computed = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    for row in ext().op_table():
        overload = row["overload"]
        if overload in SAMPLES or overload in reach.BEFORE_2_14:
            continue
        functional = overload.partition(".")[0]
        assert not computed(functional, "CPU"), (
            f"{overload} runs on the CPU and has no sample in kernelforge/reach.py"
        )


def test_templates_and_kernels_cover_the_same_overloads():
    """Every overload that templates may serve and the CPU has is proven above by a kernel."""
    for row in ext().op_table():
        if row["template"] and row["overload"] in SAMPLES:
            assert row["overload"] in KERNELS, row["overload"]
