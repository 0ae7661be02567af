"""Packs in this process: read, apply, restore, disabled, approve.

It owns which packs are published, and that their pins are this process's. Reading is `_folder.py`'s, signatures are `_trust.py`'s, hashes and code the
runtime's, on opening. Applying needs torch and the extension only: no Go, no compiler, no network.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _ext, _pins, _settings, _trust
from ._folder import REPLACE
from ._folder import folder_of as folder_of
from ._folder import read as read
from ._folder import read_signed as read_signed
from ._place import HOST, Place, place_of
from ._seal import seal
from .errors import PackFault, UsageFault

log = logging.getLogger("kernelforge")


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


# ---- whether a pack fits here --------------------------------------------------------------------------------------


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
    trust: _trust.Trust = None,
) -> list[str]:
    """Serve the approved plans of one or several packs in this process, beside those that are already served.

    Args:
        pack: folder of a pack, or several; where two plans have one guard, the later one serves.
        exact: serve only plans that were bitwise equal to eager on everything judged.
        strict: raise for a pack that cannot be used; False logs a warning and leaves eager running.
        device: CUDA device that packs for CUDA serve on, `cuda:1`; None: torch's current one, or the one that the pack was judged on.
        trust: public keys: only packs that one of them has signed are served. A file of `kernelforge keygen`, 64 hexadecimal digits, or several.

    Returns:
        Ids of the plans that serve now from these packs.

    Raises:
        PackFault: damaged, writable by others, not signed by a trusted key, or judged on another machine, torch or thread count; nothing of this call is
            published then.
        UsageFault: a key that is none.
        EnvironmentFault: no extension for this torch.

    Example:
        >>> kernelforge.apply("resnet50.kfpack")
        ['p-77aa01bc', 'p-90d1e2aa']
    """
    names = [pack] if isinstance(pack, (str, os.PathLike)) else list(pack)
    if _settings.read().disabled:
        log.warning("KERNELFORGE_DISABLE is set: no pack is served, eager runs")
        return []
    keys = _trust.keys_of(trust)
    extension = _ext.load()
    with _lock:
        found: dict[Path, _Published] = {}
        for name in names:
            try:
                found[folder_of(name)] = _open(extension, folder_of(name), exact, device, keys)
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


def _open(extension: Any, folder: Path, exact: bool, device: Any, keys: list[bytes] | None) -> _Published:
    document, digest, signature = read_signed(folder)
    if keys is not None:
        _trust.check(folder, digest, signature, keys)
    place = place_for(folder, document, device)
    here = pins_here(folder, extension, place)
    check_pins(folder, document, here)
    given = json.dumps({**here, "toolchain": document["pins"].get("toolchain", ""), "digest": digest})
    try:
        opened = extension.pack_open(str(folder), given, place.device)
    except (RuntimeError, ValueError) as e:
        raise PackFault(f"load pack `{folder}`: {e}", hint="" if "hint:" in str(e) else REPLACE) from e
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
    """Mark proposed plans of a pack as approved, so that `apply` serves them; return their ids. A study that writes the pack again keeps what was approved.

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
        if known[i]["state"] == "proposed":
            known[i] |= {"state": "approved", "approved_by": getpass.getuser()}
    if wanted:
        try:
            write_whole(folder_of(pack) / "pack.json", seal(document))
        except OSError as e:
            raise PackFault(
                f"write pack `{folder_of(pack)}`: {e.strerror or e}",
                hint="is the folder writable, is the disk full?",
            ) from e
    return wanted
