"""bench/ops.py on a device: graphs of every way, cold and warm, between neighbours, and what a call costs its caller."""

import json

import pytest

from ops_rows import modules

OWN = """
import torch
import ops_cases as c
from ops_cases import Case

def cases():
    maps = c._tensors("float16", (8, 64, 56, 56), last=True)
    made = [Case("pool float16", "aten::max_pool2d", "float16", "channels_last", maps, c.max_pool, hidden=8 * 8 * 64 * 28 * 28),
            Case("topk8 float32", "aten::topk", "float32", "contiguous", c._tensors("float32", (4096, 256)), lambda x: tuple(x.topk(8))),
            Case("in model: silu float16", "aten::silu", "float16", "channels_last", maps, torch.nn.functional.silu, group="model",
                 between=(lambda x: x * 2, torch.neg)),
            Case("waits float32", "aten::add", "float32", "contiguous", c._tensors("float32", (1000,)), waits)]
    return made

def waits(x):
    return x if x.is_meta else x + float(x.sum().item())
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    bench = modules(monkeypatch)
    own, file = tmp_path / "own.py", tmp_path / "r.json"
    own.write_text(OWN)
    begin = ["--target", "cuda", "--cases", str(own), "--out", str(file), "--home", str(tmp_path / "h")]

    def made(*words):
        assert bench.ops.main([*begin, "--blocks", "6", *words]) == 0
        return {r["case"]: r for r in json.loads(file.read_text())["rows"]}

    return made


def test_rows_of_a_device_have_every_way(run):
    rows = run("--candidates", "4", "--search-s", "20", "--without", "autotune")
    for name in ("pool float16", "topk8 float32"):
        r = rows[name]
        assert min(r[f"{w}_us"] for w in ("eager", "inductor", "copy", "kernelforge", "roof")) > 0, r
        assert r["dispatch_eager_us"] > 0 and r["pool_bytes"] > 5 * r["bytes"] and r["samples"] == 6
        assert r["warm_us"]["eager"] > 0 and (r["served"] or r["ratio"] == 1.0)
    assert rows["in model: silu float16"]["eager_us"] or rows["in model: silu float16"]["why"]["eager_us"]
    assert (
        rows["waits float32"]["eager_us"] is None and "captured" in rows["waits float32"]["why"]["eager_us"]
    )
    again = run("--recheck")
    for name, r in again.items():
        assert bool(r["served"]) == bool(r.get("recheck_ratio")), (name, r.get("recheck_why"))
