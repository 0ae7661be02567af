"""The prelude's elementary functions against float64, and every half-precision number through every unary template."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from calling import call_of
from kernelforge.referee.bounds import compare
from kernelforge.referee.calls import overload
from kernelforge.referee.cases import bounds_of
from kernels import compile_all, isa, launch
from proving import Proof, Site

BF16, F16 = torch.bfloat16, torch.float16
LANES = [
    n
    for n, needs in ((4, "sse2"), (8, "avx2"), (16, "avx512"))
    if ("sse2", "avx2", "avx512").index(needs) <= ("sse2", "avx2", "avx512").index(isa())
]
STEP = 4093  # of the 2^32 floats: prime, so that every exponent and many mantissas are met

# name, float64 function, largest error in units in the last place (the prelude's comment)
FUNCTIONS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], float]] = [
    ("exp", torch.exp, 0.9),
    ("log", torch.log, 0.9),
    ("tanh", torch.tanh, 1.4),
    ("erf", torch.erf, 1.0),
]

SOURCE = """
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* in = (const float*)args[0].p;
  float* out = (float*)args[1].p;
  for (int64_t i = begin; i < end; i += KF_LANES) {
    const int64_t n = end - i < KF_LANES ? end - i : KF_LANES;
    kf_store_n(out + i, kf_NAME(kf_load_n(in + i, n)), n);
  }
}
"""


def _candidate(name: str, lanes: int) -> dict[str, Any]:
    kernel = {
        "entry": "kf_main",
        "work": "self_numel",
        "grain": "4096",
        "args": [{"slot": "self"}, {"slot": "out0"}],
    }
    return {
        "family": name,
        "source": SOURCE.replace("NAME", name),
        "spec": {"constants": {"KF_LANES": str(lanes)}, "workspaces": [], "kernels": [kernel]},
    }


@pytest.fixture(scope="module")
def objects() -> dict[str, ctypes.CDLL]:
    return compile_all(_candidate(name, lanes) for name, _, _ in FUNCTIONS for lanes in LANES)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("name", "exact", "most"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_error_in_units_in_the_last_place(
    objects: dict[str, ctypes.CDLL],
    name: str,
    exact: Callable[[torch.Tensor], torch.Tensor],
    most: float,
    lanes: int,
) -> None:
    x = torch.arange(-(2**31), 2**31, STEP).to(torch.int32).view(torch.float32)
    call = call_of("aten::relu", [x])
    out = launch(_candidate(name, lanes), objects, call, [x])[0]
    wide = exact(x.double())
    narrow = wide.float()
    assert torch.equal(out.isnan(), narrow.isnan())
    assert torch.equal(out.isinf(), narrow.isinf())
    usual = narrow.isfinite()
    exponent = torch.frexp(narrow.abs().clamp(min=2.0**-126)).exponent
    unit = torch.exp2((exponent - 24).double())
    error = ((out.double() - wide).abs() / unit)[usual]
    assert float(error.max()) <= most, (
        f"{name}: {float(error.max()):.3f} units at {x[usual][error.argmax()].item()}"
    )


UNARY: list[tuple[str, list[Any]]] = [
    ("relu", []), ("silu", []), ("sigmoid", []), ("tanh", []), ("exp", []), ("rsqrt", []), ("neg", []), ("gelu", ["none"]), ("gelu", ["tanh"]),
    ("clamp_min", [0.1]), ("clamp", [-0.3, 0.7]), ("hardtanh", [0.0, 6.0]),
    *[("pow.Tensor_Scalar", [e]) for e in (2, 3, 0.5, -0.5, -1, -2)],
]  # fmt: skip


def _every(dtype: torch.dtype) -> torch.Tensor:
    """All 65,536 numbers of a half type, NaNs and infinities included."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


SITES = [Site(f"aten::{name}", ((_every(dtype), *rest),)) for name, rest in UNARY for dtype in (BF16, F16)]


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_every_half_number(proof: Proof, number: int) -> None:
    site, card = SITES[number], proof.cards[number]
    arguments = list(site.variants[0])
    bounds = bounds_of(overload(site.overload), arguments, "special")
    assert proof.candidates[number], f"{site.name}: no family applies"
    for candidate in proof.candidates[number]:
        out = launch(candidate, proof.objects, card["variants"][0]["call"], [arguments[0]])
        finding = compare(bounds, out)
        assert finding.status == "ok", f"{site.name} {candidate['params']}: {finding.detail}"
        assert math.isfinite(finding.worst)


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_every_half_number_survives_widening_and_narrowing(dtype: torch.dtype) -> None:
    x = _every(dtype)
    sites = [
        Site("aten::copy_", ((torch.empty(x.shape), x, False),)),
        Site("aten::copy_", ((torch.empty_like(x), x.float(), False),)),
    ]
    proof = Proof(sites)
    for i, site in enumerate(sites):
        target, source, _ = site.variants[0]
        out = launch(
            proof.candidates[i][0], proof.objects, proof.cards[i]["variants"][0]["call"], [target, source]
        )[0]
        want = source.to(target.dtype)
        assert torch.equal(out.isnan(), want.isnan())
        kept = ~want.isnan()
        assert torch.equal(out[kept], want[kept])
        assert torch.equal(out[kept].signbit(), want[kept].signbit())
