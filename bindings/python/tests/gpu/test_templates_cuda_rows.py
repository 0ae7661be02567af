"""Norms, softmax and pools against eager on the device, at sizes that fill it: the families in which several blocks share a row, and the defaults that
templates choose for large tensors (rows_sites.py). test_templates_cuda.py has every site of the host's tests.
"""

from __future__ import annotations

import pytest

from checking import check
from kernelforge._place import Place
from rows_sites import large

SITES = large()


def _name(number: int) -> str:
    first = SITES[number].variants[0][0]
    return f"{number}-{SITES[number].name}-{'x'.join(map(str, first.shape))}"


@pytest.mark.parametrize("number", range(len(SITES)), ids=_name)
def test_templates_equal_eager_at_size(number):
    site = SITES[number]
    rows = check(
        site, Place(0), site.points, align=16 * (number % 3 > 0)
    )  # with and without code for odd addresses
    families = {r["family"] for r in rows}
    assert len(families) >= site.families, f"families {sorted(families)} apply (expected {site.families})"
    bad = [r for r in rows if r["status"] != "ok"]
    assert not bad, "\n".join(f"{r['family']} {r['params']}: {r['status']}: {r['detail']}" for r in bad)
