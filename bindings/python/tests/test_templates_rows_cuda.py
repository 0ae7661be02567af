"""Norms, softmax and pools for CUDA, run block by block on the CPU, against eager by the referee's rules (rows_sites.py)."""

from __future__ import annotations

import pytest

from proving import Proof, prove
from rows_sites import small

SITES = small()


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(SITES, "cuda")


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_blocks_equal_eager_within_the_rule(proof: Proof, number: int) -> None:
    prove(proof, number, SITES[number])
