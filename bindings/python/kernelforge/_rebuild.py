"""Compiles the sources of a pack again and compares the code: is the binary that will run that of the source that can be read?

It owns what an equal, another and a missing answer mean. The digest binds source and code as they were sealed, but not to each other: only compiling
says that. The core compiles, by the same pools and behind the same limits as in a search. Same compiler, same machine: equal to the last bit.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from . import _core, _needs, _settings
from ._folder import bytes_below
from ._place import Place
from .errors import PackFault

_ENDINGS = {"host": "cc", "cuda": "cu"}


def rebuild(folder: Path, document: dict[str, Any], place: Place, here: dict[str, Any]) -> dict[str, Any]:
    """Return what compiling every source of a pack again gave.

    Args:
        document: the pack.json that was read.
        here: the pins of this process.

    Returns:
        {"toolchain": [the pack's, here], "plans": [{"id", "status", "detail"}]}; status `equal`, `differs`, `fails` (it does not compile), or
        `not_compared`: another compiler or CPU makes other code.

    Raises:
        EnvironmentFault: there is no compiler.
        PackFault: a source is not what pack.json recorded.
    """
    sources = {plan["id"]: _source(folder, document, plan) for plan in document["plans"]}
    answer = _compiled(document, place, sources)
    pins = document["pins"]
    other = _other(pins, {**here, "toolchain": answer["toolchain"]}, document.get("target", "host"))
    made = {image["id"]: image for image in answer["images"] or []}
    plans = []
    for plan in document["plans"]:
        image = made[plan["id"]]
        if image["failure"]:
            status, detail = "fails", f"its source does not compile: {image['failure']}"
        elif image["sha256"] == plan["code"]["sha256"]:
            status, detail = "equal", ""
        elif other:
            status, detail = "not_compared", other
        else:
            found = (
                f"its source gives {image['sha256'][:16]} (the pack's code is {plan['code']['sha256'][:16]})"
            )
            status, detail = "differs", f"the code is not that of the source: {found}"
        plans.append({"id": plan["id"], "status": status, "detail": detail})
    return {"toolchain": [pins.get("toolchain"), answer["toolchain"]], "plans": plans}


def _other(pins: dict[str, Any], here: dict[str, Any], target: str) -> str:
    """Return what of this machine makes other code than the pack's, or ""."""
    names = ("toolchain", "features") if target == "host" else ("toolchain", "device")
    for name in names:
        if pins.get(name) != here.get(name):
            return f"built with {name} `{pins.get(name)}` (here `{here.get(name)}`), which makes other code"
    return ""


def _source(folder: Path, document: dict[str, Any], plan: dict[str, Any]) -> str:
    recorded = plan["source"]["sha256"]
    name = f"{recorded}.{_ENDINGS[document.get('target', 'host')]}"
    text = bytes_below(folder, "source", name)
    if hashlib.sha256(text).hexdigest() != recorded:
        raise PackFault(
            f"rebuild `{folder}`: plan {plan['id']}: file `source/{name}`: its content is not what pack.json recorded",
            hint="copy the pack again from where it was made",
        )
    return text.decode()


def _compiled(document: dict[str, Any], place: Place, sources: dict[str, str]) -> dict[str, Any]:
    program = _needs.compiler(place)
    request: dict[str, Any] = {"compiler": program}
    if place.cuda:
        major, minor = place.info()["capability"]
        request = {"nvrtc": program, "major": major, "minor": minor}
    constants = {p["id"]: p["spec"].get("constants", {}) for p in document["plans"]}
    started = _core.call(
        "rebuild.start",
        target=place.target,
        worker=str(_core.WORKER),
        scratch=str(_settings.scratch_folder()),
        sources=[{"id": i, "source": text, "constants": constants[i]} for i, text in sources.items()],
        **request,
    )["rebuild"]
    try:
        while not (answer := _core.call("rebuild.poll", rebuild=started, timeout_ms=180))["done"]:
            pass
    except KeyboardInterrupt:
        _core.call("rebuild.poll", rebuild=started, cancel=True)
        raise
    return answer
