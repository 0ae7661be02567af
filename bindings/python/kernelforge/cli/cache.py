"""`kernelforge cache`: what lies on disk, how large it is, and how to remove it."""

from __future__ import annotations

import argparse
import itertools
import shutil
from pathlib import Path

from .. import _settings
from ..errors import LockedFault, StoreFault
from . import options

_HEAD, _APPLICATION = 100, 68  # of an SQLite file: its header, and where that names the program
_OURS = b"KFst"  # go/store: applicationID


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("action", nargs="?", choices=("list", "clear"), default="list")
    p.add_argument("--study", help="with clear: remove only this study from the store")
    p.add_argument(
        "--all", action="store_true", help="with clear: studies and packs too, not only compiled candidates"
    )
    p.add_argument("--yes", action="store_true", help="do not ask")
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    store, settings = _settings.store_path(args.store), _settings.read()
    if args.action == "clear":
        return _clear(args, store, settings)
    places = {"store": store, "packs": settings.pack_folder, "cache": settings.cache}
    rows = {name: {"path": str(path), "bytes": _size(path)} for name, path in places.items()}
    try:
        studies, trouble = _studies(store), ""
    except StoreFault as e:  # what lies there is shown all the same: who reads this may want to clear it
        studies, trouble = [], f"{e.text}; `kernelforge cache clear --all` moves a damaged store aside"
    lines = [f"{name:<7} {row['bytes'] / 2**20:9.1f} MiB  {row['path']}" for name, row in rows.items()]  # type: ignore[operator]
    lines += (
        ["", *(f"study   {s['study']}  {s['state']}  {s['model']}  {s['made']}" for s in studies)]
        if studies
        else ["", trouble or "no study"]
    )
    lines.append("`kernelforge cache clear` removes compiled candidates; --all removes studies and packs too")
    options.emit(args, {"schema": 1, **rows, "studies": studies, "trouble": trouble}, "\n".join(lines))
    return 0


def _clear(args: argparse.Namespace, store: Path, settings: _settings.Settings) -> int:
    removed: list[str] = []
    if args.study:
        from .. import _core

        options.confirm(f"remove the study `{args.study}` from `{store}`?", args.yes)
        _core.call("store.clear", store=str(store), study=args.study)
        removed.append(args.study)
    else:
        options.confirm(
            f"remove {'all studies, packs and ' if args.all else ''}compiled candidates?", args.yes
        )
        if args.all and store.exists():
            removed.append(_clear_store(store))
        for folder in (settings.cache, *([settings.pack_folder] if args.all else [])):
            if folder.exists():
                shutil.rmtree(folder)
                removed.append(str(folder))
    options.emit(args, {"schema": 1, "removed": removed}, "removed " + (", ".join(removed) or "nothing"))
    return 0


def _clear_store(store: Path) -> str:
    """Remove all studies; a damaged store is moved aside, since a part of it may still be read. Return what was done, in words."""
    from .. import _core

    try:
        _core.call("store.clear", store=str(store))
        return str(store)
    except LockedFault:
        raise
    except StoreFault as e:
        if "damaged" not in e.text or not _ours(store):  # one that cannot be written, say, is whole
            raise
    aside = next(
        p for n in itertools.count(1) if not (p := store.with_name(f"{store.name}.damaged-{n}")).exists()
    )
    for suffix in ("", "-wal", "-shm"):
        part = store.with_name(store.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return f"{store} (damaged: it lies beside as {aside.name})"


def _ours(store: Path) -> bool:
    """Return whether a damaged file was a store, by its name or its header, and not a file of another program."""
    try:
        with store.open("rb") as f:
            head = f.read(_HEAD)
    except OSError:
        return False
    ours = head[_APPLICATION : _APPLICATION + 4] == _OURS
    return ours or store.name == _settings.STORE_FILE


def _studies(store: Path) -> list[dict[str, object]]:
    if not store.exists():
        return []
    from .._studies import studies

    return studies(store)


def _size(path: Path) -> int:
    if path.is_file():
        return sum(p.stat().st_size for p in path.parent.glob(path.name + "*"))  # the write-ahead log counts
    return sum(p.lstat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else 0
