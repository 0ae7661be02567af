"""Norms against their definition in float64, closer than the referee's rule asks: it allows for roundings of the mean, since eager has them."""

from __future__ import annotations

import pytest
import torch

from kernelforge.referee.calls import overload
from kernelforge.referee.cases import bounds_of
from kernelforge.referee.rule import UNIT
from proving import Proof, Site

ROUNDINGS = 8.0  # of float32, relative to what is left when the mean is gone; the judge allows as many relative to the mean
EPS = 1e-5


def _rows(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Rows of 2673 elements, four a tensor, in which a formula loses digits."""
    chance = torch.Generator().manual_seed(3)
    noise = torch.randn((4, 2673), generator=chance)
    step = 2e4 * torch.finfo(dtype).eps
    return {
        "a mean of 4,000 deviations": (1e4 + step * noise).to(
            dtype
        ),  # a sum of elements in float has lost the deviation
        "a row as a mask leaves it": torch.full_like(
            noise, -1e9, dtype=dtype
        ),  # x * scale + (bias - mean * scale) cancels
        "equal squares": torch.where(noise < 0, -88.7, 88.7).to(
            dtype
        ),  # roundings of a running sum all go one way
        "one element far away": noise.index_fill(1, torch.tensor([5]), 1e6).to(dtype),
    }


def _laid(rows: torch.Tensor, number: int) -> torch.Tensor:
    """Return rows as the number of a site has them: groups of planes, groups with channels inside, rows."""
    if number % 3 == 2:
        return rows
    planes = rows.reshape(1, 36, 9, 33)
    return planes.contiguous(memory_format=torch.channels_last) if number % 3 else planes


def _sites() -> list[Site]:
    weight, bias = (torch.randn(36, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    sites = []
    for number, dtype in enumerate([torch.float32] * 3 + [torch.bfloat16] * 3):
        x = _laid(torch.zeros(4, 2673, dtype=dtype), number)
        w, b = (p.to(dtype) if x.dim() == 4 else p.to(dtype).repeat(75)[:2673] for p in (weight, bias))
        call = (x, w, b, 1, 36, 297, 4, EPS) if x.dim() == 4 else (x, [2673], w, b, EPS)
        sites.append(Site(f"aten::native_{'group' if x.dim() == 4 else 'layer'}_norm", (call,), "axes"))
    return sites


SITES = _sites()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES)


def _defined(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the norm in float64, and the size of its terms: what is left of an element without the mean, a deviation, the bias."""
    rows = x.double().reshape(4, 2673)
    away = rows - rows.mean(1, keepdim=True)
    away *= (away.square().mean(1, keepdim=True) + EPS).rsqrt()
    if x.dim() == 4:
        weight, bias = (p.reshape(4, 9, 1).expand(4, 9, 297).reshape(4, 2673) for p in (weight, bias))
    w, b = weight.double(), bias.double()
    return (away * w + b).reshape(x.shape), ((away.abs() + 1) * w.abs() + b.abs()).reshape(x.shape)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_norms_lose_nothing_to_the_mean(proof: Proof, number: int) -> None:
    arguments, call = SITES[number].variants[0], proof.cards[number]["variants"][0]["call"]
    parameters = [a for a in arguments[1:] if isinstance(a, torch.Tensor)]
    for what, rows in _rows(arguments[0].dtype).items():
        x = _laid(rows, number)
        expected, terms = _defined(x, *parameters)
        allowed = ROUNDINGS * UNIT[torch.float32] * terms
        if x.dtype is not torch.float32:
            allowed += UNIT[x.dtype] * (expected.abs() + allowed)
        for candidate in proof.candidates[number]:
            out = proof.launch(candidate, proof.objects, call, [x, *parameters])[0]
            worst = ((out.double() - expected).abs() / allowed).max().item()
            where = f"{candidate['family']} {candidate['params']}: {what}"
            assert worst <= 1, f"{where}: {worst:.3g} times the allowed error"


def test_reference_of_a_group_norm_does_not_cancel_on_channels_last() -> None:
    """Torch's own variance in one pass, in float64 too, made 0.13 of this row's 316 and so refused what was right."""
    x = torch.full((2, 12, 5, 7), -998244352.0, dtype=torch.bfloat16).contiguous(
        memory_format=torch.channels_last
    )
    bounds = bounds_of(overload("aten::native_group_norm"), (x, None, None, 2, 12, 35, 4, EPS), "special")
    right = [torch.zeros_like(x), torch.full((2, 4), -998244352.0), torch.full((2, 4), EPS**-0.5)]
    for bound, out in zip(bounds, right, strict=True):
        assert bound.compare(out.to(bound.eager.dtype)).status == "ok"
    assert torch.allclose(bounds[2].best.double(), torch.tensor(EPS**-0.5, dtype=torch.float64), rtol=2**-8)
