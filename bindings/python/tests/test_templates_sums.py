"""CUDA templates that add up, on the CPU (blocks.py), held against the error of eager's own kernels on a device, whose order of additions is imitated.

Eager on the CPU adds up in other orders, and its cumulative sums of float32 run in double, so its error says nothing of theirs. Rows of one sign tell:
within a binade all roundings of a running sum of equal terms go one way, so a plain sum of n terms is off by a share of n of them, a tree by log2(n).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

import kernels
from kernelforge.referee import cases
from kernelforge.referee.bounds import compare
from kernelforge.referee.cases import Variant, bounds_of
from proving import Proof, Site, card_of

F32, BF16 = torch.float32, torch.bfloat16
U = 2.0**-24


def _t(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))) * 2


def _scanned(x: torch.Tensor) -> torch.Tensor:
    """Return the cumulative sums of the last dim as ATen/native/cuda/ScanUtils.cuh makes them: Sklansky's tree over blocks of columns, each of which begins
    with the last sum of the one before."""
    rows, n = x.numel() // x.shape[-1], x.shape[-1]
    threads = 1 << min(max(4, (9 + math.ceil(math.log2(n)) - math.ceil(math.log2(rows))) // 2), 9)
    done, total = [], torch.zeros_like(x[..., 0])
    for block in x.split(2 * threads, -1):
        v = torch.nn.functional.pad(block, (0, 2 * threads - block.shape[-1]))
        v[..., 0] += total
        for m in range(threads.bit_length()):
            at = torch.arange(2 * threads)
            upper = at[at >> m & 1 == 1]
            v[..., upper] += v[..., (upper >> m << m) - 1]
        total = v[..., -1]
        done.append(v[..., : block.shape[-1]])
    return torch.cat(done, -1)


def _reduced(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of two long rows as ATen/native/cuda/Reduce.cuh makes them: 512 threads of four running sums each, joined in halves; where rows lie across
    each other, half the threads have a row."""
    lanes = 2048 if x.stride(-1) == 1 else 1024
    v = torch.nn.functional.pad(x, (0, -x.shape[-1] % lanes)).reshape(*x.shape[:-1], -1, lanes)
    total = torch.zeros_like(v[..., 0, :])
    for step in v.unbind(-2):
        total = total + step
    while total.shape[-1] > 1:
        total = total[..., : total.shape[-1] // 2] + total[..., total.shape[-1] // 2 :]
    return total[..., 0]


SCANS = [
    Site(
        "aten::cumsum",
        ((_t(3, 5, 131), -1, None), (_t(7, 6, 40).permute(1, 2, 0), -1, None)),
    ),
    Site("aten::cumsum_", ((_t(3, 5, 131), -1, None), (_t(3, 131, 5).transpose(1, 2), -1, None))),
]
SUMS = [
    Site(
        "aten::sum.dim_IntList",
        ((_t(2, 40000), [1], False, None), (_t(40000, 2).t(), [1], False, None)),
    )
]
AS_EAGER = [(s, _scanned) for s in SCANS] + [(s, _reduced) for s in SUMS]

LONG = [
    Site("aten::cumsum", ((_t(2, 6000), 1, None),)),
    Site("aten::cumsum", ((_t(6000, 8), 0, None),)),
    Site("aten::cumsum", ((_t(3000, 16).to(BF16), 0, F32),)),
    Site("aten::cumsum", ((_t(2, 6000).to(BF16), 1, F32),)),
    Site("aten::sum.dim_IntList", ((_t(3, 20000), [1], False, None),)),
    Site("aten::sum.dim_IntList", ((_t(60000, 4), [0], False, None),)),
    Site("aten::sum.dim_IntList", ((_t(2, 20000).to(BF16), [1], False, F32),)),
    Site("aten::sum.dim_IntList", ((_t(70, 95), [1], False, None),)),
    Site("aten::mean.dim", ((_t(60000, 4), [0], True, None),)),
]


@pytest.fixture(scope="module")
def proof() -> Proof:
    """Each family's default, and what differs from it by going through a whole sum in one part, which makes the longest chains."""
    sites = [s for s, _ in AS_EAGER] + LONG
    found = kernels.render([card_of(s, "cuda") for s in sites], "axes")
    first = [{c["family"]: c["id"] for c in reversed(f)}.values() for f in found]
    given = [
        [c for c in f if c["id"] in ids or c["params"].get("PARTS") == 1]
        for f, ids in zip(found, first, strict=True)
    ]
    return Proof(sites, "cuda", given)


@pytest.mark.parametrize("number", range(len(AS_EAGER)), ids=[s.name for s, _ in AS_EAGER])
def test_no_further_off_than_eager_on_a_device(
    proof: Proof, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, eager = AS_EAGER[number]
    refer = cases.refer
    monkeypatch.setattr(cases, "refer", lambda o, a: dataclasses.replace(refer(o, a), eager=[eager(a[0])]))
    for arguments, variant in zip(site.variants, proof.cards[number]["variants"], strict=True):
        v = Variant(variant["call"], list(arguments), seed=7)
        for case in v.inputs():
            if case.kind not in ("captured", "special"):
                continue
            tensors = v.draw(case.kind, case.number)
            bounds = bounds_of(v.overload, v.arguments(tensors), case.kind)
            for c in proof.candidates[number]:
                outs = proof.launch(c, proof.objects, v.call, tensors)
                finding = compare(bounds, outs)
                where = f"{variant['id']} {case.kind} {case.number}: {c['family']} {c['params']}"
                assert finding.status == "ok", f"{where}: {finding.detail}"


ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "masked": lambda x: torch.full_like(x, -1e9),
    "a third": lambda x: torch.full_like(x, 1 / 3),
    "of one sign": lambda x: x.abs(),
    "a large one first": lambda x: x.abs().index_fill(x.shape.index(max(x.shape)), torch.tensor(0), 1e7),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("number", range(len(LONG)), ids=[f"{i}-{s.name}" for i, s in enumerate(LONG)])
def test_roundings_of_long_sums_do_not_add_up(proof: Proof, number: int, row: str) -> None:
    """The bound of a tree: log2(n) u times the terms' magnitudes."""
    site, number = LONG[number], len(AS_EAGER) + number
    x, dim, *_ = site.variants[0]
    given = ROWS[row](x)
    if site.overload == "aten::cumsum":
        sums, sizes = given.double().cumsum(dim), given.double().abs().cumsum(dim)
    else:
        keep = site.variants[0][2]
        sums, sizes = given.double().sum(dim, keep), given.double().abs().sum(dim, keep)
    n = x.shape[dim if isinstance(dim, int) else dim[0]]
    if site.overload == "aten::mean.dim":
        sums, sizes = sums / n, sizes / n
    for c in proof.candidates[number]:
        call = proof.cards[number]["variants"][0]["call"]
        (out,) = proof.launch(c, proof.objects, call, [given])
        off = float(((out.double() - sums).abs() / sizes).max()) / U
        assert off <= math.log2(n), f"{c['family']} {c['params']}: {off:.1f} u (at most {math.log2(n):.1f})"
