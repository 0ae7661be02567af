"""Judges a pack again on this machine: every plan's outputs against eager's by the referee's rules, and paired timing by the real dispatch path.

It owns `verify` (a fresh process, so that a crash is a finding) and what runs in it. Needs torch and the extension: no Go, no compiler.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import _ext, _pack, _trust
from ._child import Child, end_with_parent, environment
from ._measure import median_interval
from ._place import Place
from ._seal import seal
from .errors import PackFault, VerifyFault

PLAN_SECONDS = 600.0  # a plan of large shapes on a slow machine takes a minute or two


def verify(
    pack: str | os.PathLike[str],
    *,
    seed: int = 0,
    blocks: int = 40,
    accept: bool = False,
    trust: _trust.Trust = None,
    rebuild: bool = False,
    plan_seconds: float = PLAN_SECONDS,
) -> dict[str, Any]:
    """Judge a pack again in a fresh process and return what was found. Plans that are only proposed are judged like the others, and stay proposed.

    Args:
        pack: folder of the pack.
        seed: chance of inputs and order.
        blocks: pairs of timings a plan.
        accept: if everything passes, write this machine's pins into the pack, so that it is served here.
        trust: public keys; a pack that none of them has signed is not even loaded.
        rebuild: compile every source again first and compare the code; one that differs on the same compiler and machine does not pass, and is not run.
        plan_seconds: time that the start of the process, and each plan, may take; then the process is killed.

    Returns:
        {"passed", "plans": [{"id", "overload", "state", "status", "detail", "ratio", "low", "high", "eager_us", "kernelforge_us"}], "pins": {name: [pack's, here]}},
        and with `rebuild`: {"rebuild": {"toolchain": [pack's, here], "plans": [{"id", "status", "detail"}]}}

    Raises:
        PackFault: the pack cannot be read, or is not signed by a trusted key.
        VerifyFault: code that is not its source's; or the process died while it ran a plan, or a plan did not end in time (which one is in the text).

    Example:
        >>> kernelforge.verify("resnet50.kfpack")["passed"]
        True
    """
    folder = _pack.folder_of(pack)
    document, digest, signature = _pack.read_signed(folder)
    keys = _trust.keys_of(trust)
    if keys is not None:
        _trust.check(folder, digest, signature, keys)
    built = _rebuilt(folder, document) if rebuild else {}
    threads = document["pins"].get("threads")
    command = ["-m", "kernelforge._verify", str(folder), digest, str(seed), str(blocks)]
    last, code, talk = _followed(command, environment(threads), plan_seconds)
    if code != 0 or "passed" not in last:
        if "error" in last:
            raise PackFault(last["error"]["text"], last["error"]["hint"])
        where = f"plan {last['begin']}" if "begin" in last else "its start"
        if code is None:
            raise VerifyFault(
                f"verify `{folder}`: {where} did not end within {plan_seconds:g} s",
                hint="a kernel that hangs must not be applied; if the machine is slow or the shapes are large, give more time: `--plan-s`",
            )
        tail = talk.strip().splitlines()
        raise VerifyFault(
            f"verify `{folder}`: the process ended with code {code} at {where}"
            + (f" ({tail[-1]})" if tail else ""),
            hint="do not apply this pack here; search again with `kernelforge optimize`",
        )
    last |= built
    if accept and last["passed"]:
        _accept(folder, digest, {name: here for name, (_, here) in last["pins"].items()})
        last["accepted"] = True
    return last


def _rebuilt(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Compile the sources again; refuse code that is not theirs before it is loaded."""
    from ._rebuild import rebuild

    place = _pack.place_for(folder, document)
    found = rebuild(folder, document, place, _pack.pins_here(folder, _ext.load(), place))
    for plan in found["plans"]:
        if plan["status"] in ("differs", "fails"):
            raise VerifyFault(
                f"verify `{folder}`: plan {plan['id']}: {plan['detail']}",
                hint="do not apply this pack: what it runs cannot be read; search again with `kernelforge optimize`",
            )
    return {"rebuild": found}


def _followed(
    command: list[str], variables: dict[str, str], seconds: float
) -> tuple[dict[str, Any], int | None, str]:
    """Run the process; return its last line, its exit code (None: killed, since no line came for so many seconds) and its standard error."""
    last: dict[str, Any] = {}
    with Child(command, variables) as child:
        while (line := child.line(seconds)) is not None:
            last = line
        return last, child.code(), child.talk()


def _accept(folder: Path, digest: str, pins: dict[str, Any]) -> None:
    from ._report import write_whole

    document = _read(folder, digest)
    document["pins"].update(pins)
    write_whole(folder / "pack.json", seal(document))


def _read(folder: Path, digest: str) -> dict[str, Any]:
    """Return the document of the pack that was meant."""
    document, found, _ = _pack.read_signed(folder)
    if found != digest:
        raise PackFault(
            f"verify `{folder}`: the pack was changed meanwhile", hint="somebody writes it; verify it again"
        )
    return document


# ---- in the fresh process ---------------------------------------------------------------------------------------


def judge(
    folder: Path, digest: str, seed: int, blocks: int, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Judge every plan of the pack with this digest in this process. `tell` hears which plan begins, so that a crash has a name."""
    import torch

    document = _read(folder, digest)
    torch.set_num_threads(int(document["pins"].get("threads", torch.get_num_threads())))
    place = _pack.place_for(folder, document)
    extension = _ext.load()
    here = _pack.pins_here(folder, extension, place)
    differing = {
        n: [theirs, here.get(n)]
        for n, theirs in document["pins"].items()
        if n != "toolchain" and here.get(n) != theirs
    }
    results = []
    with torch.no_grad(), place.current(), _all_approved(folder, document) as whole:
        try:
            opened = {p.id: p for p in extension.pack_open(str(whole), None, place.device)}
        except RuntimeError as e:
            raise PackFault(
                f"load pack `{folder}`: {str(e).replace(str(whole), str(folder))}",
                hint="copy it again from where it was made, or search again",
            ) from e
        for plan in document["plans"]:
            tell({"begin": plan["id"]})
            results.append(
                {
                    "id": plan["id"],
                    "overload": plan["call"]["overload"],
                    "state": plan["state"],
                    **_judge_plan(extension, opened[plan["id"]], plan, seed, blocks, place),
                }
            )
    passed = all(r["status"] == "ok" for r in results)
    return {"schema": 1, "pack": str(folder), "passed": passed, "plans": results, "pins": differing}


@contextlib.contextmanager
def _all_approved(folder: Path, document: dict[str, Any]) -> Iterator[Path]:
    """Give a pack in which every plan is approved, since the runtime opens no others: the pack itself, or a copy for the time of the block."""
    if all(p["state"] == "approved" for p in document["plans"]):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="kernelforge-verify-") as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy)
        plans = [{**p, "state": "approved"} for p in document["plans"]]
        (copy / "pack.json").write_text(seal({**document, "plans": plans}), encoding="utf-8")
        yield copy


def _judge_plan(
    extension: Any, loaded: Any, plan: dict[str, Any], seed: int, blocks: int, place: Place
) -> dict[str, Any]:
    from .referee.bounds import compare
    from .referee.cases import bounds_of

    variant = variant_of(plan["call"], seed, place)
    extension.publish([loaded])
    try:
        for item in variant.inputs():
            arguments = variant.arguments(variant.draw(item.kind, item.number))
            bounds = bounds_of(variant.overload, arguments, item.kind)
            before = loaded.hits
            outputs = extension.call(variant.overload.name, _private(arguments))
            if loaded.hits != before + 1:
                return _found(
                    "not_served",
                    f"{item.kind} input {item.number}: the guard did not serve it: {_why(extension, variant.overload.name)}",
                )
            finding = compare(bounds, outputs)
            if finding.status != "ok":
                return _found(finding.status, f"{item.kind} input {item.number}: {finding.detail}")
        timed = _time(variant, blocks, seed)
    finally:
        extension.unpublish()
    slow = timed["high"] < 1
    return {**_found("slower" if slow else "ok", "slower than eager here" if slow else ""), **timed}


def _found(status: str, detail: str) -> dict[str, Any]:
    return {
        "status": status,
        "detail": detail,
        "ratio": None,
        "low": None,
        "high": None,
        "eager_us": None,
        "kernelforge_us": None,
    }


def _why(extension: Any, overload: str) -> str:
    return (
        ", ".join(extension.stats()["ops"].get(overload, {}).get("fallbacks", {})) or "no reason was counted"
    )


def variant_of(call: dict[str, Any], seed: int, place: Place) -> Any:
    """Return a referee's variant of a call whose payload is not at hand: normal values stand in, and variances that are positive."""
    from .referee.cases import Variant

    variant = Variant(call, None, seed, place)
    tensors = variant.draw("fresh", 0)
    for slot, t in zip(variant.slots, tensors, strict=True):
        if "var" in slot.name and t.is_floating_point():
            t.abs_().add_(0.5)
    return Variant(call, list(variant.arguments(tensors)), seed, place)


def _private(arguments: list[Any]) -> list[Any]:
    from .referee.calls import clone, map_tensors

    return map_tensors(arguments, clone)


def _time(variant: Any, blocks: int, seed: int) -> dict[str, Any]:
    """Time pairs over rotating sets of inputs, as many as leave the caches cold for large tensors."""
    from .referee.pool import sets_for
    from .referee.ruler import calls_of, inner_for

    first = variant.arguments(variant.draw("captured", 0))
    sets = [_private(first) for _ in range(sets_for(sum(s.bytes for s in variant.slots), variant.place))]
    calls = calls_of(variant.place, variant.overload.name, sets)
    one = sorted(calls.eager(5, 1))[2]
    pairs = calls.blocks(blocks, inner_for(one, len(sets), variant.place), seed)
    ratio = median_interval([e / o for e, o in zip(pairs["eager_ns"], pairs["ours_ns"], strict=True)])
    eager, ours = median_interval(pairs["eager_ns"]).median, median_interval(pairs["ours_ns"]).median
    return {
        "ratio": ratio.median,
        "low": ratio.low,
        "high": ratio.high,
        "eager_us": eager / 1e3,
        "kernelforge_us": ours / 1e3,
    }


def _main(argv: list[str]) -> int:
    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    end_with_parent()
    try:
        tell(judge(Path(argv[0]), argv[1], int(argv[2]), int(argv[3]), tell))
    except PackFault as e:
        tell({"error": {"text": e.text, "hint": e.hint}})
        return 4
    return 0


if __name__ == "__main__":
    raise SystemExit(_main(sys.argv[1:]))
