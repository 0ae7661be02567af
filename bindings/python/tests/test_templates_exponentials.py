"""The softmax families for CUDA make their own exponentials of float32: right to a rounding or two down to the smallest numbers, and off to neither side.

An error to one side counts twice in a sum that is joined from pieces and once in what is divided by it, so rows as a whole come out too small: an H200 showed
-1.1 u in the mean with its own expf, which the referee refuses (T3).
"""

from __future__ import annotations

import pytest
import torch

import kernels
from proving import Proof, Site, card_of

U = 2.0**-24


def _below_zero() -> torch.Tensor:
    """Return rows of 0 and another element, from -110 to 0: their softmax is the exponential, less by a part that float64 knows."""
    x = -110 * torch.rand(6000, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    x[:64] = torch.linspace(-104.5, -102.5, 64)  # where exponentials become zero
    x[64:128] = torch.linspace(-88, -87, 64)  # where they stop being normal
    x[128] = -torch.inf
    return torch.stack((torch.zeros_like(x), x), 1).float()


ROWS = _below_zero()
SITES = [
    Site("aten::_softmax", ((ROWS, 1, False),)),  # short rows
    Site("aten::_softmax", ((ROWS.t().contiguous(), 0, False),)),  # columns
    Site("aten::_softmax", ((torch.nn.functional.pad(ROWS[:96], (0, 9000), value=-torch.inf), 1, False),)),
]


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES, "cuda", kernels.render([card_of(s, "cuda") for s in SITES], "default"))


@pytest.mark.parametrize("number", range(len(SITES)), ids=["rows", "columns", "long_rows"])
def test_exponentials_are_right_and_lean_to_no_side(proof: Proof, number: int) -> None:
    x, dim, _ = SITES[number].variants[0]
    true = x.double().softmax(dim)
    spacing = torch.maximum(torch.exp2(true.clamp(min=1e-300).log2().floor() - 23), torch.tensor(2.0**-149))
    assert proof.candidates[number]
    for c in proof.candidates[number]:
        call = proof.cards[number]["variants"][0]["call"]
        (out,) = proof.launch(c, proof.objects, call, [x])
        off = (out.double() - true) / spacing
        normal = true > 2.0**-120
        lean = float(((out.double() - true) / true)[normal].mean()) / U
        worst = float(off.abs().max())
        words = f"{c['family']} {c['params']}: {worst:.2f} ulp at most, {lean:.3f} u in the mean"
        assert worst < 2.5 and abs(lean) < 0.1, words


def test_a_row_with_nan_or_nothing_but_minus_infinity_is_nan(proof: Proof) -> None:
    for number, site in enumerate(SITES):
        x, dim, _ = site.variants[0]
        rows = x.clone().movedim(dim, -1)
        rows[1, 1], rows[2] = torch.nan, -torch.inf
        for c in proof.candidates[number]:
            call = proof.cards[number]["variants"][0]["call"]
            (out,) = proof.launch(c, proof.objects, call, [x.clone().copy_(rows.movedim(-1, dim))])
            got = out.movedim(dim, -1).isnan().all(-1)
            assert got[1] and got[2] and int(got.sum()) == 2, f"{c['family']} {c['params']}"
