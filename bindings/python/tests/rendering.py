"""Templates on a CUDA device: card -> candidates (`template.render` of the core) -> cubins (NVRTC by ctypes) -> plans that the dispatcher serves.

It owns the way from a call to a published plan, without worker and judge, for the tests of the folder `gpu` and for bench/templates.py.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import kernels
import nvrtc
from kernelforge import _core, _ext
from kernelforge._place import Place
from kernelforge.referee.calls import extent
from proving import Site, layout_of

PRELUDE = Path(__file__).resolve().parents[3] / "go/cuda/prelude/kf_kernel.cuh"
FLAGS = ("-minimal", "--fmad=true")  # with nvrtc.OPTIONS: go/cuda/options.go

Candidate = dict[str, Any]


def onto(value: Any, device: str) -> Any:
    """Return arguments with their tensors copied to a device, strides and gaps kept."""
    if isinstance(value, (list, tuple)):
        return [onto(v, device) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    flat = value.as_strided((extent(value.shape, value.stride()),), (1,))
    return flat.to(device, copy=True).as_strided(value.shape, value.stride())


@functools.cache
def facts(place: Place) -> dict[str, Any]:
    """Return what templates are told of a device."""
    info = place.info()
    arch = nvrtc.arch_of(tuple(info["capability"]))
    return {"target": "cuda", "arch": arch, **{k: info[k] for k in ("sm_count", "l2_bytes", "smem_optin")}}


def captured(overload: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the `call` JSON of one call, as the extension captures it. The arguments of in-place and out forms are overwritten."""
    module = _ext.load()
    module.capture_begin(0, 0)
    try:
        with torch.no_grad():  # a composite that is hooked dissolves above its hook where autograd records
            module.call(overload, list(arguments))
    finally:
        records = module.capture_end()
    found = [r["call"] for r in records if r["overload"] == overload]
    assert found, f"`{overload}` was not captured: {[r['overload'] for r in records]}"
    return found[0]


def card_of(calls: Sequence[dict[str, Any]], arguments: Sequence[Any], align: int = 0) -> dict[str, Any]:
    """Return the card of some calls of one overload. align: what it says of every input's address, bytes; 0: nothing."""
    variants = [
        {"id": f"v{i}", "call": c, "calls": 1, "eager_us": 10.0, "bytes": moved(c), "roof_us": 1.0}
        for i, c in enumerate(calls)
    ]
    if align:
        for v in variants:
            v["align"] = [align] * len(kernels.slot_names(v["call"]))
    return {
        "schema": 1,
        "id": "c-00000000",
        "target": "cuda",
        "overload": calls[0]["overload"],
        "layout": layout_of(arguments),
        "share": 0.1,
        "children": [],
        "variants": variants,
    }


def moved(call: dict[str, Any]) -> int:
    """Return the bytes that a call must move: each distinct element of an input once, each element of an output once."""

    def bytes_of(d: dict[str, Any]) -> int:
        if d.get("kind") == "tensors":
            return sum(bytes_of(i) for i in d["items"])
        if "sizes" not in d:
            return 0
        count = getattr(torch, d["dtype"]).itemsize
        for size, stride in zip(d["sizes"], d["strides"], strict=True):
            count *= size if stride else 1
        return count

    only_written = {"copy_": "self"}.get(call["overload"].removeprefix("aten::"))
    inputs = [a for a in call["args"] if a["name"] != only_written]
    return sum(bytes_of(d) for d in [*inputs, *call["outputs"]])


def render(card: dict[str, Any], place: Place, points: str = "default") -> list[Candidate]:
    """Return a card's candidates. points: `default` of each family, or `axes`: each parameter changed alone as well."""
    answer = _core.call("template.render", card=_plain(card), facts=facts(place))
    found: dict[str, Candidate] = {c["id"]: c for c in answer["candidates"]}
    if points == "axes":
        for family in answer["families"]:
            for p in family["params"]:
                for value in p["values"]:
                    if value != p["default"]:
                        more = _core.call(
                            "template.render",
                            card=_plain(card),
                            facts=facts(place),
                            family=family["name"],
                            params={p["name"]: value},
                        )
                        found |= {c["id"]: c for c in more["candidates"]}
    return list(found.values())


def _plain(value: Any) -> Any:
    """Return a JSON value without numbers that JSON lacks: they become strings, as docs/formats.md has them."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


_cubins: dict[str, bytes] = {}


def _key(candidate: Candidate) -> str:
    return json.dumps([candidate["source"], sorted(candidate["spec"]["constants"].items())])


def compile_all(candidates: Sequence[Candidate], place: Place) -> None:
    """Compile what is not compiled yet, eight at a time (NVRTC leaves the GIL)."""
    missing = list({_key(c): c for c in candidates if _key(c) not in _cubins}.values())
    with ThreadPoolExecutor(8) as pool:
        for candidate, image in zip(missing, pool.map(lambda c: _compile(c, place), missing), strict=True):
            _cubins[_key(candidate)] = image


def _compile(candidate: Candidate, place: Place) -> bytes:
    constants = [f"-D{k}={v}" for k, v in sorted(candidate["spec"]["constants"].items())]
    source = f'#include "{PRELUDE.name}"\n{candidate["source"]}'
    return nvrtc.compile(
        source, facts(place)["arch"], [*FLAGS, *constants], {PRELUDE.name: PRELUDE.read_text()}
    )


def plan_of(candidate: Candidate, call: dict[str, Any], place: Place) -> Any:
    """Return a plan of a candidate for exactly this call; it asks for no more alignment than elements have, or than the candidate needs."""
    sizes: list[int] = []
    for a in [*call["args"], *call["outputs"]]:
        for d in a["items"] if a.get("kind") == "tensors" else [a] if "sizes" in a else []:
            sizes.append(max(getattr(torch, d["dtype"]).itemsize, kernels.align_of(candidate)))
    name = hashlib.sha256(json.dumps([candidate["id"], call], sort_keys=True).encode()).hexdigest()[:8]
    plan = {
        "id": f"p-{name}",
        "call": _plain(call),
        "spec": candidate["spec"],
        "align": sizes,
        "deterministic": True,
        "exact": False,
    }
    compile_all([candidate], place)
    return _ext.load().plan_open(json.dumps(plan), _cubins[_key(candidate)], place.ordinal)


@contextmanager
def served(plan: Any) -> Iterator[None]:
    """Publish one plan for the body, with counters at zero."""
    module = _ext.load()
    module.publish([plan])
    module.stats(reset=True)
    try:
        yield
    finally:
        module.unpublish()


def sites() -> list[Site]:
    """Return the sites of all test modules of templates, their tensors on the CPU."""
    import test_templates_folds as folds
    import test_templates_math as halves
    import test_templates_moves as moves
    import test_templates_norm_pool as norm_pool
    import test_templates_pointwise as pointwise
    import test_templates_topk as topk
    import test_templates_upsample as upsample
    import test_templates_vectors as vectors

    return [
        s for m in (pointwise, moves, folds, upsample, halves, norm_pool, topk, vectors) for s in m.SITES
    ] + vectors.STRIPS
