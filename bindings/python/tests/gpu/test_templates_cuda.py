"""Every CUDA template against eager on the device: the sites of the host's templates, judged by the referee's rules through the dispatcher.

bench/templates.py --check does the same in processes of its own, so that it also tells of the sites behind one that faults.
"""

from __future__ import annotations

import pytest

from checking import Refused, check
from kernelforge._place import Place
from rendering import sites

SITES = sites()
# What eager leaves to others on this device, or families do not serve; everything else has a candidate.
WITHOUT = ("native_batch_norm",)
# What eager refuses on this device and not on the host: parameters of another type, channels inside.
REFUSED = ("native_layer_norm-bfloat16", "native_group_norm")


@pytest.mark.parametrize("number", range(len(SITES)), ids=[f"{i}-{s.name}" for i, s in enumerate(SITES)])
def test_templates_equal_eager(number):
    site = SITES[number]
    try:
        rows = check(site, Place(0), site.points)
    except Refused as e:
        assert site.name.startswith(REFUSED), f"{site.overload}: {e}"
        pytest.skip(str(e))
    bad = [r for r in rows if r["status"] != "ok"]
    assert not bad, "\n".join(f"{r['family']} {r['params']}: {r['status']}: {r['detail']}" for r in bad)
    assert rows or site.name.startswith(WITHOUT), f"no family serves {site.overload}"
