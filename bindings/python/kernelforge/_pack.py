"""Packs in this process: read, apply, restore, disabled, approve.

It owns which packs are published and the checks that need no compiler: schema, state, pins. Hashes and code are the runtime's, on opening.
Applying needs torch and the extension only: no Go, no compiler, no network.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _ext, _pins, _settings
from ._place import HOST, Place, place_of
from ._seal import intact, seal
from .errors import PackFault, UsageFault

log = logging.getLogger("kernelforge")
SCHEMA = 1


@dataclass(frozen=True)
class _Published:
    document: dict[str, Any]
    plans: dict[str, tuple[str, Any]]  # device and guard -> id, Plan of the extension


_lock = threading.RLock()
os.register_at_fork(  # as in `_ext`; Python takes the newer lock first, which is the order in which they nest
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_packs: dict[
    Path, _Published
] = {}  # in the order of applying; a later pack wins where two guards are the same


# ---- reading ----------------------------------------------------------------------------------------------------


def folder_of(pack: str | os.PathLike[str]) -> Path:
    """Return the folder of a pack named by its folder or its pack.json."""
    path = Path(pack).expanduser().absolute()
    return path.parent if path.name == "pack.json" else path


def read(pack: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the document `pack.json` of a pack.

    Raises:
        PackFault: no pack there, damaged, or of a newer schema.
    """
    folder = folder_of(pack)
    file = folder / "pack.json"
    try:
        str(folder).encode()  # the extension takes names as UTF-8
    except UnicodeEncodeError as e:
        raise PackFault(
            f"load pack {str(folder)!a}: its name is no text in this locale",
            hint="set a locale of UTF-8 (`LC_ALL=C.UTF-8`) or PYTHONUTF8=1, or rename the folder",
        ) from e
    try:
        text = file.read_bytes()
        document = json.loads(text)
        schema, plans = document["schema"], document["plans"]
        pins = document["pins"]
    except FileNotFoundError as e:
        raise PackFault(
            f"load pack `{folder}`: there is no `pack.json` in it",
            hint="a pack is a folder that `kernelforge optimize --out` wrote",
        ) from e
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise PackFault(f"load pack `{folder}`: `pack.json` is damaged ({e})", hint=_REPLACE) from e
    if schema != SCHEMA:
        raise PackFault(
            f"load pack `{folder}`: it has schema {schema} (expected {SCHEMA})",
            hint="install the kernelforge that wrote it, or a newer one",
        )
    whole = isinstance(plans, list) and isinstance(pins, dict)
    if not whole or not all(
        isinstance(p, dict) and p.keys() >= {"id", "state", "call", "exact"} for p in plans
    ):
        raise PackFault(
            f"load pack `{folder}`: `pack.json` is damaged (plans or pins have the wrong type)", hint=_REPLACE
        )
    if not intact(text):
        raise PackFault(
            f"load pack `{folder}`: `pack.json` is damaged or was edited (its digest is that of another text)",
            hint=_REPLACE,
        )
    return document  # type: ignore[no-any-return]


_REPLACE = "copy it again from where it was made, or search again with `kernelforge optimize`"


def check_pins(folder: Path, document: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse a pack that was judged on something else than this process.

    The toolchain is not compared: the code in a pack is built, and a machine that applies it needs no compiler.
    """
    for name, theirs in document["pins"].items():
        if name == "toolchain":
            continue
        ours = here.get(name)
        if ours != theirs:
            hint = f"`kernelforge verify {folder}` judges it again here; until then eager runs"
            if name == "threads":
                hint += f", or set the threads with torch.set_num_threads({theirs})"
            if name == "device" and document.get("target") == "cuda":
                hint = f"code for a GPU runs on its architecture only: search here with `kernelforge optimize`; if both are of one architecture, {hint}"
            raise PackFault(
                f"load pack `{folder}`: it was judged with {name} `{theirs}` (this process has `{ours}`)",
                hint=hint,
            )


def place_for(folder: Path, document: dict[str, Any], device: Any = None) -> Place:
    """Return where a pack's plans would serve: the host, the CUDA device asked for, or torch's current one; another one only if it alone is the one that
    the pack was judged on.

    Raises:
        PackFault: a pack for CUDA in a process without such a device.
    """
    if document.get("target", "host") == "host":
        return HOST
    import torch

    wanted = document["pins"].get("device")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0 or (device is not None and not 0 <= place_of(device).ordinal < count):
        asked = "a CUDA device" if device is None else f"the CUDA device `{device}`"
        raise PackFault(
            f"load pack `{folder}`: it was judged on `{wanted}`, and this process does not have {asked}",
            hint="`kernelforge doctor` says what is in the way (driver, CUDA_VISIBLE_DEVICES, a torch without CUDA); until then eager runs",
        )
    if device is not None:
        return place_of(device)
    current = torch.cuda.current_device()
    order = [current, *(i for i in range(count) if i != current)]
    return Place(next((i for i in order if torch.cuda.get_device_name(i) == wanted), current))


def pins_here(folder: Path, extension: Any, place: Place) -> dict[str, Any]:
    """Return what this process is, for a pack that is to serve at a place.

    Raises:
        PackFault: the device cannot be opened; in the runtime's words.
    """
    try:
        return _pins.pins(extension.abi(), place=place)
    except RuntimeError as e:
        text, _, hint = str(e).partition("\nhint: ")
        raise PackFault(f"load pack `{folder}`: {text}", hint=hint or "until then eager runs") from e


# ---- publishing -------------------------------------------------------------------------------------------------


def apply(
    pack: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    exact: bool = False,
    strict: bool = True,
    device: Any = None,
) -> list[str]:
    """Serve the approved plans of one or several packs in this process, beside those that are already served.

    Args:
        pack: folder of a pack, or several; where two plans have one guard, the later one serves.
        exact: serve only plans that were bitwise equal to eager on everything judged.
        strict: raise for a pack that cannot be used; False logs a warning and leaves eager running.
        device: CUDA device that packs for CUDA serve on, `cuda:1`; None: torch's current one, or the one that the pack was judged on.

    Returns:
        Ids of the plans that serve now from these packs.

    Raises:
        PackFault: damaged, or judged on another machine, torch or thread count; nothing of this call is published then.
        EnvironmentFault: no extension for this torch.

    Example:
        >>> kernelforge.apply("resnet50.kfpack")
        ['p-77aa01bc', 'p-90d1e2aa']
    """
    names = [pack] if isinstance(pack, (str, os.PathLike)) else list(pack)
    if _settings.read().disabled:
        log.warning("KERNELFORGE_DISABLE is set: no pack is served, eager runs")
        return []
    extension = _ext.load()
    with _lock:
        found: dict[Path, _Published] = {}
        for name in names:
            try:
                found[folder_of(name)] = _open(extension, folder_of(name), exact, device)
            except PackFault as e:
                if strict:
                    raise
                log.warning("%s", e)
        try:
            _serve(extension, found)
        except PackFault:
            if strict:
                raise
            for folder, one in found.items():  # one that is refused must not keep the others out
                try:
                    _serve(extension, {folder: one})
                except PackFault as e:
                    log.warning("%s", e)
        serving = applied()
    from ._stats import dump_at_exit

    dump_at_exit()
    return [i for p in found for i in serving.get(str(p), [])]


def _open(extension: Any, folder: Path, exact: bool, device: Any) -> _Published:
    document = read(folder)
    place = place_for(folder, document, device)
    here = pins_here(folder, extension, place)
    check_pins(folder, document, here)
    given = json.dumps({**here, "toolchain": document["pins"].get("toolchain", "")})
    try:
        opened = extension.pack_open(str(folder), given, place.device)
    except (RuntimeError, ValueError) as e:
        raise PackFault(f"load pack `{folder}`: {e}", hint="" if "hint:" in str(e) else _REPLACE) from e
    by_id = {p.id: p for p in opened}
    chosen = [p for p in document["plans"] if p["state"] == "approved" and (p["exact"] or not exact)]
    plans = {f"{place.device} {_guard(p)}": (p["id"], by_id[p["id"]]) for p in chosen}
    return _Published(document, plans)


def _serve(extension: Any, more: dict[Path, _Published]) -> None:
    """Serve packs beside the others, each in the place of its former self. If the runtime refuses, all stays as it was (PackFault)."""
    packs = {p: v for p, v in _packs.items() if p not in more} | more
    _publish(extension, packs)
    _packs.clear()
    _packs.update(packs)


def _guard(plan: dict[str, Any]) -> str:
    """Return what a guard holds of a call: which outputs are inputs, but not what the others look like, since a call does not say."""
    call = plan["call"]
    return json.dumps(
        [call["overload"], call["args"], [o.get("alias") for o in call["outputs"]]], sort_keys=True
    )


def _table(packs: dict[Path, _Published]) -> dict[str, tuple[Path, str, Any]]:
    """Return device and guard -> pack, id, Plan: one plan a guard, the last pack's."""
    return {guard: (p, *plan) for p, v in packs.items() for guard, plan in v.plans.items()}


def _publish(extension: Any, packs: dict[Path, _Published]) -> None:
    """Replace what serves. If the runtime refuses, all stays as it was (PackFault)."""
    table = _table(packs)
    if not table:
        extension.unpublish()
        return
    try:
        extension.publish([plan for _, _, plan in table.values()])
    except (RuntimeError, ValueError) as e:
        names = ", ".join(f"`{p}`" for p in dict.fromkeys(p for p, _, _ in table.values()))
        text, _, hint = str(e).partition("\nhint: ")
        raise PackFault(
            f"serve pack {names}: {text}",
            hint=hint or "`kernelforge verify` judges a pack alone; what served before goes on",
        ) from e


def publish_again() -> None:
    """Serve again what was applied, after the referee has served plans of its own."""
    extension = _ext.loaded()
    if extension is not None:
        with _lock:
            _publish(extension, _packs)


def restore(pack: str | os.PathLike[str] | None = None) -> None:
    """Stop serving one pack, or all of them; eager runs again. Calls that are running finish as they began."""
    extension = _ext.loaded()
    with _lock:
        if pack is not None and folder_of(pack) not in _packs:
            raise UsageFault(
                f"restore `{folder_of(pack)}`: it is not applied in this process",
                hint="kernelforge.applied() lists what is",
            )
        left = {} if pack is None else {p: v for p, v in _packs.items() if p != folder_of(pack)}
        if extension is not None:
            _publish(extension, left)
        _packs.clear()
        _packs.update(left)


def forget(folder: Path) -> None:
    """Stop serving a pack if it is applied."""
    with _lock:
        if folder in _packs:
            restore(folder)


def remove(folder: Path) -> None:
    """Stop serving a pack and delete it; a folder that is no pack stays."""
    forget(folder)
    if (folder / "pack.json").is_file():
        try:
            shutil.rmtree(folder)
        except OSError as e:
            raise PackFault(
                f"delete pack `{folder}`: {e.strerror or e}",
                hint="delete it by hand: its plans must not be served",
            ) from e


def applied() -> dict[str, list[str]]:
    """Return the packs that this process has applied, with the ids of their plans that serve: a later pack may have taken a guard over."""
    with _lock:
        table = _table(_packs)
        return {str(p): [i for owner, i, _ in table.values() if owner == p] for p in _packs}


def serving() -> list[tuple[Path, dict[str, Any], Any]]:
    """Return pack, plan of its document and loaded plan for each site that is served."""
    with _lock:
        table = _table(_packs)
        plans = {p: {plan["id"]: plan for plan in v.document["plans"]} for p, v in _packs.items()}
    return [(pack, plans[pack][i], loaded) for pack, i, loaded in table.values()]


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Run eager inside the block, in all threads of the process; blocks nest. CUDA graphs that were captured before keep their kernels.

    Example:
        >>> with kernelforge.disabled():
        ...     reference = model(x)
    """
    with _ext.disabled():
        yield


# ---- approval ---------------------------------------------------------------------------------------------------


def approve(pack: str | os.PathLike[str], plans: Sequence[str] | None = None) -> list[str]:
    """Mark proposed plans of a pack as approved, so that `apply` serves them; return their ids.

    Args:
        pack: folder of a pack.
        plans: ids; None approves all that are proposed.

    Raises:
        UsageFault: an id that is not in the pack.
    """
    from ._report import write_whole

    document = read(pack)
    known = {p["id"]: p for p in document["plans"]}
    wanted = [i for i, p in known.items() if p["state"] == "proposed"] if plans is None else list(plans)
    for i in wanted:
        if i not in known:
            raise UsageFault(
                f"approve plan `{i}` of `{folder_of(pack)}`: it has no such plan (found {', '.join(known) or 'none'})"
            )
        known[i]["state"] = "approved"
    if wanted:
        try:
            write_whole(folder_of(pack) / "pack.json", seal(document))
        except OSError as e:
            raise PackFault(
                f"write pack `{folder_of(pack)}`: {e.strerror or e}",
                hint="is the folder writable, is the disk full?",
            ) from e
    return wanted
