"""Norms for CUDA, block by block on the CPU (blocks.py), against the error of eager's own kernel on a device, whose order of additions is imitated: eager on the CPU
adds up in another one, and of rows whose mean is some deviations it is less exact."""

from __future__ import annotations

import pytest
import torch

import kernels
from calling import call_of
from proving import Proof, Site

GRANTED = 1.35  # times eager's root mean square error: the rule grants 1.5, and these are few rows
EPS = 1e-6


def _rows(n: int, deviations: float) -> torch.Tensor:
    return torch.randn((64, n), generator=torch.Generator().manual_seed(n)) + deviations


def _welford(x: torch.Tensor) -> torch.Tensor:
    """Return a layer norm as ATen/native/cuda/layer_norm_kernel.cu makes it: 128 threads take vectors of four and keep mean and squares of what they have seen,
    then they are joined in halves."""
    rows, n = x.shape
    steps = -(-n // 512)
    v = torch.nn.functional.pad(x, (0, 512 * steps - n)).view(rows, steps, 128, 4)
    there = (torch.arange(512 * steps) < n).view(steps, 128, 4)
    mean, squares, count = torch.zeros(3, rows, 128).unbind(0)
    for step in range(steps):
        for e in range(4):
            here, away = there[step, :, e], v[:, step, :, e] - mean
            next_mean = mean + away * (1 / (count + 1))
            next_squares = squares + away * (v[:, step, :, e] - next_mean)
            mean, squares = torch.where(here, next_mean, mean), torch.where(here, next_squares, squares)
            count = torch.where(here, count + 1, count)
    while mean.shape[1] > 1:
        half = mean.shape[1] // 2
        a, b, n_a, n_b = mean[:, :half], mean[:, half:], count[:, :half], count[:, half:]
        share = 1 / (n_a + n_b)
        squares = squares[:, :half] + squares[:, half:] + (b - a) * (b - a) * n_a * (n_b * share)
        mean, count = n_a * share * a + n_b * share * b, n_a + n_b
    return (x - mean) * torch.rsqrt(squares / n + EPS)


LENGTHS = (768, 1536, 2048, 1000)
SITES = [Site("aten::native_layer_norm", ((_rows(n, 0), [n], None, None, EPS),), "axes") for n in LENGTHS]


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES, "cuda")


@pytest.mark.parametrize("deviations", [0.0, 1.0, 3.0, 3.9, 30.0])
@pytest.mark.parametrize("number", range(len(SITES)), ids=[str(n) for n in LENGTHS])
def test_no_further_off_than_eager_on_a_device(proof: Proof, number: int, deviations: float) -> None:
    x, call = _rows(LENGTHS[number], deviations), proof.cards[number]["variants"][0]["call"]
    wide = x.double()
    expected = (wide - wide.mean(1, keepdim=True)) * (wide.var(1, unbiased=False, keepdim=True) + EPS).rsqrt()

    def off(out: torch.Tensor) -> float:
        return float((out.double() - expected).square().mean().sqrt())

    allowed = GRANTED * off(_welford(x))
    for c in proof.candidates[number]:
        got = off(proof.launch(c, proof.objects, call, [x])[0])
        assert got <= allowed, f"{c['family']} {c['params']}: {got:.3g} (at most {allowed:.3g})"


# ---- few rows -------------------------------------------------------------------------------------------------------------------------


def _few(*sizes: int, groups: int = 0, rms: bool = False, last: bool = False) -> Site:
    """A card of few rows of float32, whose mean is not zero, without parameters."""
    x, n = torch.zeros(sizes), sizes[-1]
    if groups:
        x = x.contiguous(memory_format=torch.channels_last) if last else x
        rest = (*sizes[:2], x[0, 0].numel(), groups, EPS)
        return Site("aten::native_group_norm", ((x, None, None, *rest),), "axes")
    if rms:
        return Site("aten::_fused_rms_norm", ((x, [n], None, EPS),), "axes")
    return Site("aten::native_layer_norm", ((x, [n], None, None, EPS),), "axes")


FEW = [
    _few(2, 4, 64, 64, groups=1),
    _few(1, 4096),
    _few(2, 1001),
    _few(3, 700, rms=True),
    _few(1, 20000, rms=True),
    _few(1, 9000),
    _few(3, 65536),
    _few(2, 8, 24, 20, groups=2, last=True),
]


@pytest.fixture(scope="module")
def few() -> Proof:
    return Proof(FEW, "cuda")


@pytest.mark.parametrize(
    "number", range(len(FEW)), ids=["x".join(map(str, s.variants[0][0].shape)) for s in FEW]
)
def test_statistics_of_few_rows_are_rounded_once(few: Proof, number: int) -> None:
    """What they are off by, all elements of a row are off by, to one side: of few rows the rule sees it (T3's bias) where eager's own are right by luck."""
    like, call = FEW[number].variants[0][0], few.cards[number]["variants"][0]["call"]
    rows = call["outputs"][-1]["sizes"]
    for seed in range(6):
        chance = torch.Generator().manual_seed(seed)
        x = torch.empty_like(like).copy_(torch.randn(like.shape, generator=chance) + (0.3, 1.5)[seed % 2])
        wide = x.double().contiguous().view(torch.Size(rows).numel(), -1)
        mean = wide.mean(1)
        squares = (
            wide.square().mean(1) if len(call["outputs"]) == 2 else (wide - mean[:, None]).square().mean(1)
        )
        for c in few.candidates[number]:
            *_, means, deviations = few.launch(c, few.objects, call, [x])
            checked = [(deviations, (squares + EPS).rsqrt())] + [(means, mean)] * (len(call["outputs"]) == 3)
            for got, true in checked:
                off = float(
                    ((got.double().view(-1) - true).abs() / torch.exp2(true.log2().floor() - 23)).max()
                )
                allowed = (
                    1.1 if c["family"] == "norm_ring" else 0.8
                )  # blocks of a ring tell each other no more than a float
                assert off <= allowed, f"{c['family']} {c['params']}: {off:.3f} units in the last place"


# So many blocks share the row that lanes of a warp have none of its elements beside lanes that have: 0 times an infinity.
SHARED = Site("aten::native_layer_norm", ((torch.zeros(1, 65536), [65536], None, None, EPS),), families=4)


def test_a_row_whose_squares_overflow_has_no_nan() -> None:
    """Eager on the CPU makes NaN of it, so that its values say nothing here; eager on a device makes zeros."""
    shared, call = Proof([SHARED], "cuda"), call_of(SHARED.overload, SHARED.variants[0])
    x = (torch.randn(1, 65536, generator=torch.Generator().manual_seed(1)) + 3) * 1e25
    assert {"norm_ring", "norm_team"} <= {c["family"] for c in shared.candidates[0]}
    for c in shared.candidates[0]:
        with kernels.multiprocessors(36):
            outs = shared.launch(c, shared.objects, call, [x])
        assert not any(bool(o.isnan().any()) for o in outs), c["family"]
