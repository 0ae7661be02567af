"""Every CUDA template against eager on the device: the sites of the host's templates, judged by the referee's rules through the dispatcher.

bench/templates.py --check does the same in processes of its own, so that it also tells of the sites behind one that faults.
"""

from __future__ import annotations

import pytest
import torch

from checking import Refused, check
from kernelforge._place import Place
from proving import Site
from rendering import sites

SITES = sites()
# What eager leaves to others on this device, or families do not serve; everything else has a candidate.
WITHOUT = ("native_batch_norm",)


def foreign(site: Site) -> bool:
    """Return whether a norm has parameters of another type, or groups of channels that lie inside: eager on a device refuses them, no family has them."""
    if not site.name.startswith(("native_layer_norm", "native_group_norm")):
        return False
    x, *rest = (t for t in site.variants[0] if isinstance(t, torch.Tensor))
    inside = site.name.startswith("native_group_norm") and not x.is_contiguous()
    return inside or any(t.dtype != x.dtype for t in rest)


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_templates_equal_eager(number):
    site = SITES[number]
    try:
        rows = check(
            site, Place(0), site.points, align=16 * (number % 2)
        )  # with and without code for odd addresses
    except Refused as e:
        assert foreign(site), e
        pytest.skip(str(e))
    bad = [r for r in rows if r["status"] != "ok"]
    assert not bad, "\n".join(f"{r['family']} {r['params']}: {r['status']}: {r['detail']}" for r in bad)
    assert rows or foreign(site) or site.name.startswith(WITHOUT), f"no family serves {site.overload}"
