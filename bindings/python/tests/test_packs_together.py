"""Several packs in one process: which plan serves where two have one guard, what a refused one leaves, and the counters of each site."""

import json
import re
from pathlib import Path

import pytest
import torch

import kernelforge
import packs
from kernelforge import _ext, _pack
from kernelforge._seal import seal
from kernelforge._stats import REASONS
from kernelforge.errors import PackFault

X = torch.randn(*packs.SIZES)


@pytest.fixture(autouse=True)
def restored():
    _ext.load()
    kernelforge.restore()
    kernelforge.stats(reset=True)
    yield
    kernelforge.restore()


def _change(pack, change):
    document = json.loads((pack / "pack.json").read_text())
    change(document["plans"])
    (pack / "pack.json").write_text(seal(document))
    return pack


def test_a_guard_does_not_say_what_the_outputs_look_like_so_the_later_pack_serves(tmp_path):
    first = packs.write(tmp_path / "a", plan="p-first")

    def other(plans):
        plans[0]["call"]["outputs"][0]["dtype"] = "int32"

    second = _change(packs.write(tmp_path / "b", plan="p-second"), other)
    assert kernelforge.apply([first, second]) == ["p-second"]
    assert _pack.applied() == {str(first): [], str(second): ["p-second"]}
    kernelforge.restore(second)
    assert _pack.applied() == {str(first): ["p-first"]}
    torch.relu(X)
    assert [s["hits"] for s in kernelforge.stats()["sites"]] == [1]


def _refusing(monkeypatch, *names):
    """Have the runtime refuse plans of these ids, as it does for what only it can see."""
    real = _ext.load().publish

    def publish(plans):
        for plan in plans:
            if plan.id in names:
                raise RuntimeError(f"publish `{plan.id}`: the warm launch failed\nhint: look at it")
        real(plans)

    monkeypatch.setattr(_ext.load(), "publish", publish)


def test_a_refusal_of_the_runtime_is_the_packs_error_and_what_served_goes_on(tmp_path, monkeypatch):
    good, bad = packs.write(tmp_path / "good", plan="p-good"), packs.write(tmp_path / "bad", plan="p-bad")
    kernelforge.apply(good)
    _refusing(monkeypatch, "p-bad")
    with pytest.raises(PackFault, match=r"serve pack .*bad`.*: publish `p-bad`: the warm launch failed") as e:
        kernelforge.apply(bad)
    assert e.value.hint == "look at it"
    assert e.value.exit_code == 4
    assert _pack.applied() == {str(good): ["p-good"]}
    torch.relu(X)
    assert kernelforge.stats()["sites"][0]["hits"] == 1


def test_without_strict_one_refused_pack_does_not_keep_the_others_out(tmp_path, monkeypatch, caplog):
    good, bad = packs.write(tmp_path / "a", plan="p-good"), packs.write(tmp_path / "b", plan="p-bad")
    _refusing(monkeypatch, "p-bad")
    assert kernelforge.apply([good, bad], strict=False) == ["p-good"]
    assert _pack.applied() == {str(good): ["p-good"]}
    assert "publish `p-bad`" in caplog.text
    torch.relu(X)
    assert kernelforge.stats()["sites"][0]["hits"] == 1


def test_a_pack_with_a_plan_that_lacks_a_field_is_damaged(tmp_path):
    pack = _change(packs.write(tmp_path / "p"), lambda plans: plans[0].pop("exact"))
    with pytest.raises(PackFault, match="damaged"):
        kernelforge.apply(pack)
    assert kernelforge.apply(pack, strict=False) == []


# ---- counters ---------------------------------------------------------------------------------------------------


def test_hits_are_counted_for_each_site_and_reset_and_written(tmp_path):
    pack = packs.write(tmp_path / "p")
    assert kernelforge.stats()["sites"] == []
    kernelforge.apply(pack)
    for _ in range(2):
        torch.relu(X)
    torch.relu(X[:3])
    site = {
        "overload": "aten::relu",
        "inputs": "float32[64,1000]",
        "plan": "p-relu",
        "pack": str(pack),
        "hits": 2,
        "fallbacks": {},
    }
    assert kernelforge.stats()["sites"] == [site]
    written = json.loads(kernelforge.dump_stats(tmp_path / "stats.json").read_text())
    assert written["sites"] == [site]
    assert written["ops"]["aten::relu"] == {"hits": 2, "fallbacks": {"no_match": 1}}
    kernelforge.stats(reset=True)
    assert kernelforge.stats()["sites"] == [{**site, "hits": 0}]


def test_every_reason_of_the_extension_has_words():
    source = Path(__file__).parents[3] / "torchext" / "registry.cpp"
    if not source.exists():
        pytest.skip("no checkout")
    names = re.search(r"const char\* names\[\] = \{(.*?)\};", source.read_text(), re.S)
    assert names is not None
    assert set(re.findall(r'"(\w+)"', names.group(1))) - {"served"} <= REASONS.keys()
