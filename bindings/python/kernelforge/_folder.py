"""A pack's folder: read it, and remove what a study has made.

It owns opening files below a folder without following links, whose they may be, and the checks of pack.json that need no extension. Hashes and code are
the runtime's, on opening, by the same rules (csrc/src/pack.cc); the digest that is read here must be the one that it finds.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._seal import digest_of, intact
from .errors import PackFault

SCHEMA = 1
SIGNATURE = "signature.json"
_MOST_BYTES = 16 << 20  # of pack.json
_SUBFOLDERS = ("code", "source")
_HASHED = re.compile(r"[0-9a-f]{64}\.(so|cubin|cc|cu)")
REPLACE = "copy it again from where it was made, or search again with `kernelforge optimize`"


def folder_of(pack: str | os.PathLike[str]) -> Path:
    """Return the folder of a pack named by its folder or its pack.json."""
    path = Path(pack).expanduser().absolute()
    return path.parent if path.name == "pack.json" else path


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Give a descriptor of the folder: what is renamed or linked above it afterwards changes nothing."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_owner(number, folder, "this folder")
        yield number
    finally:
        os.close(number)


def _check_owner(number: int, folder: Path, what: str) -> None:
    """Refuse what somebody else can write: the words are csrc's."""
    info = os.fstat(number)
    if info.st_uid not in (os.geteuid(), 0):
        raise PackFault(
            f"load pack `{folder}`: {what}: it belongs to user {info.st_uid} (expected {os.geteuid()}, or root)",
            hint="a pack is code: copy it (`cp -r`) if you trust who made it, so that nobody else can change it",
        )
    if info.st_mode & stat.S_IWOTH:
        raise PackFault(
            f"load pack `{folder}`: {what}: everybody may write to it",
            hint="a pack is code: `chmod -R o-w` the pack if nobody has changed it meanwhile",
        )


def _bytes(parent: int, folder: Path, name: str) -> bytes:
    """Return the content of a regular file below an open folder."""
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise PackFault(
                f"load pack `{folder}`: file `{name}`: it is a symbolic link (packs hold files only)",
                hint=REPLACE,
            ) from e
        raise
    with os.fdopen(number, "rb") as file:
        info = os.fstat(number)
        if not stat.S_ISREG(info.st_mode):
            raise PackFault(f"load pack `{folder}`: file `{name}`: it is no regular file", hint=REPLACE)
        _check_owner(number, folder, f"file `{name}`")
        if info.st_size > _MOST_BYTES:
            raise PackFault(
                f"load pack `{folder}`: file `{name}`: {info.st_size} bytes (expected at most {_MOST_BYTES})",
                hint=REPLACE,
            )
        return file.read(_MOST_BYTES + 1)


def bytes_below(folder: Path, sub: str, name: str) -> bytes:
    """Return a file's content in a subfolder of a pack; no link is followed.

    Raises:
        PackFault: it is not there, or not what a pack may hold.
    """
    try:
        with _opened(folder) as number:
            below = os.open(sub, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=number)
            try:
                _check_owner(below, folder, f"folder `{sub}`")
                return _bytes(below, folder, name)
            finally:
                os.close(below)
    except OSError as e:
        raise PackFault(f"load pack `{folder}`: file `{sub}/{name}`: {e.strerror or e}", hint=REPLACE) from e


def read(pack: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the document `pack.json` of a pack.

    Raises:
        PackFault: no pack there, damaged, of a newer schema, or writable by others.
    """
    return read_signed(pack)[0]


def read_signed(pack: str | os.PathLike[str]) -> tuple[dict[str, Any], str, bytes | None]:
    """Return the document of a pack, its digest, and the text of its signature if there is one."""
    folder = folder_of(pack)
    try:
        str(folder).encode()  # the extension takes names as UTF-8
    except UnicodeEncodeError as e:
        raise PackFault(
            f"load pack {str(folder)!a}: its name is no text in this locale",
            hint="set a locale of UTF-8 (`LC_ALL=C.UTF-8`) or PYTHONUTF8=1, or rename the folder",
        ) from e
    signature = None
    try:
        with _opened(folder) as number:
            text = _bytes(number, folder, "pack.json")
            with contextlib.suppress(FileNotFoundError):
                signature = _bytes(number, folder, SIGNATURE)
        document = json.loads(text)
        schema, plans = document["schema"], document["plans"]
        pins = document["pins"]
    except (FileNotFoundError, NotADirectoryError) as e:
        found = "there is no `pack.json` in it" if folder.is_dir() else "there is no such folder"
        raise PackFault(
            f"load pack `{folder}`: {found}",
            hint="a pack is a folder that `kernelforge optimize --out` wrote",
        ) from e
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise PackFault(f"load pack `{folder}`: `pack.json` is damaged ({e})", hint=REPLACE) from e
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
            f"load pack `{folder}`: `pack.json` is damaged (plans or pins have the wrong type)", hint=REPLACE
        )
    if not intact(text):
        raise PackFault(
            f"load pack `{folder}`: `pack.json` is damaged or was edited (its digest is that of another text)",
            hint=REPLACE,
        )
    return document, digest_of(text), signature


# ---- what may be overwritten and removed --------------------------------------------------------------------------


def strangers(folder: Path) -> list[str]:
    """Return what lies in a pack's folder and is no part of a pack; the folder is there."""
    found = [e.name for e in os.scandir(folder) if e.name not in ("pack.json", SIGNATURE, *_SUBFOLDERS)]
    for sub in _SUBFOLDERS:
        place = folder / sub
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            found.append(sub)
        elif place.is_dir():
            found += [f"{sub}/{e.name}" for e in os.scandir(place) if not _HASHED.fullmatch(e.name)]
    return sorted(found)


def made_by(folder: Path, study: str) -> bool:
    """Return whether the pack in a folder is one that this study wrote, as it wrote it or with approvals and pins of later."""
    try:
        return bool(read(folder).get("study") == study)
    except PackFault:
        return False  # none, or no longer what a study wrote


def remove(folder: Path, study: str) -> bool:
    """Delete the pack that a study has written; return whether one was. Another study's pack, and files that no pack has, stay.

    Raises:
        PackFault: it cannot be deleted.
    """
    if not made_by(folder, study):
        return False
    try:
        for name in ("pack.json", SIGNATURE):  # from here on it is no pack
            (folder / name).unlink(missing_ok=True)
        for sub in _SUBFOLDERS:
            place = folder / sub
            if place.is_symlink() or not place.is_dir():
                continue
            for entry in list(os.scandir(place)):
                if _HASHED.fullmatch(entry.name):
                    os.unlink(entry.path)
            _leave_if_empty(place)
        _leave_if_empty(folder)
    except OSError as e:
        raise PackFault(
            f"delete pack `{folder}`: {e.strerror or e}",
            hint="delete it by hand: its plans must not be served",
        ) from e
    return True


def _leave_if_empty(folder: Path) -> None:
    if not any(os.scandir(folder)):
        folder.rmdir()
