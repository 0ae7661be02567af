"""Average pools for CUDA, block by block on the CPU (blocks.py), divide as eager does: a quotient from a product and what that leaves has the bits of a division."""

from __future__ import annotations

import pytest
import torch

from proving import Proof, Site


def _t(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def _pool(kernel: list[int], divisor: int | None = None, padding: int = 0) -> Site:
    x = _t(2, 3, 60, 64)
    return Site("aten::avg_pool2d", ((x, kernel, kernel, [padding, padding], False, True, divisor),))


# Families that add up in eager's order; of windows that do not divide a plane one thread has each.
SITES = [
    _pool([3, 5]),
    _pool([5, 3], padding=1),
    _pool([3, 3], divisor=7),
    _pool([2, 3], divisor=-11),
    _pool([2, 4], divisor=1 << 33),
    Site("aten::_adaptive_avg_pool2d", ((_t(2, 24, 7, 7), [3, 3]),), "axes"),
    Site("aten::_adaptive_avg_pool2d", ((_t(2, 24, 28, 40), [4, 5]),)),
]
IN_ORDER = {"avg_pool_rows", "avg_pool_even", "avg_pool_teams"}


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES, "cuda")


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_averages_have_the_bits_of_a_division(proof: Proof, number: int) -> None:
    site, call = SITES[number], proof.cards[number]["variants"][0]["call"]
    namespace, name = site.overload.split("::")
    x, *rest = site.variants[0]
    eager = getattr(getattr(torch.ops, namespace), name)(x, *rest)
    found = [
        c for c in proof.candidates[number] if c["family"] in IN_ORDER and c["params"].get("TEAM", 1) == 1
    ]
    assert found
    for c in found:
        (out,) = proof.launch(c, proof.objects, call, [x])
        assert torch.equal(out, eager), f"{c['family']} {c['params']}"
