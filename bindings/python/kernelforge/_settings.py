"""Where things lie and what the environment says. The only file that reads `KERNELFORGE_` variables.

Seven variables, no more:

| variable | meaning |
|---|---|
| `KERNELFORGE_HOME` | one folder for store, packs and cache (else the XDG folders) |
| `KERNELFORGE_DISABLE` | `1`: nothing is hooked, searched or served; eager runs |
| `KERNELFORGE_PACK` | pack folders that `kernelforge run` publishes, separated like `PATH` |
| `KERNELFORGE_STATS` | file that gets the dispatch counters when the process ends |
| `KERNELFORGE_CXX` | C++ compiler for host candidates (else `g++`, then `clang++`) |
| `KERNELFORGE_NVRTC` | path of `libnvrtc.so` (CUDA target) |
| `KERNELFORGE_NCU` | Nsight Compute's `ncu`, which reads hardware counters for authors (CUDA target); `off`: none are read |

Refuses: torch, the extension, the core.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import EnvironmentFault, UsageFault

TIERS = (0, 1, 2)  # of the sandbox: docs/security.md

STORE_FILE = "kernelforge.db"
_OFF = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class Settings:
    """What the environment asks for, read once per call of `read`."""

    home: Path | None
    disabled: bool
    packs: tuple[Path, ...]
    stats_file: Path | None
    compiler: str | None
    nvrtc: str | None
    ncu: str | None

    @property
    def data(self) -> Path:
        """Folder of the store and the packs: they cannot be made again without a search."""
        return self.home or _xdg("XDG_DATA_HOME", ".local/share")

    @property
    def cache(self) -> Path:
        """Folder of compiled candidates: it can be deleted at any time."""
        return self.home / "cache" if self.home else _xdg("XDG_CACHE_HOME", ".cache")

    @property
    def store(self) -> Path:
        """The store that is used when none is named."""
        return self.data / STORE_FILE

    @property
    def pack_folder(self) -> Path:
        return self.data / "packs"


def read() -> Settings:
    """Return the settings of this moment."""
    env = os.environ
    home = env.get("KERNELFORGE_HOME")
    packs = env.get("KERNELFORGE_PACK", "")
    stats = env.get("KERNELFORGE_STATS")
    return Settings(
        home=Path(home).expanduser().absolute() if home else None,
        disabled=env.get("KERNELFORGE_DISABLE", "").lower() not in _OFF,
        packs=tuple(Path(p).expanduser() for p in packs.split(os.pathsep) if p),
        stats_file=Path(stats).expanduser() if stats else None,
        compiler=env.get("KERNELFORGE_CXX") or None,
        nvrtc=env.get("KERNELFORGE_NVRTC") or None,
        ncu=env.get("KERNELFORGE_NCU") or None,
    )


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if os.path.isabs(base) else Path.home() / default
    return root / "kernelforge"


def store_path(store: str | os.PathLike[str] | None) -> Path:
    """Return the store file for what a user gave: a file, a folder, an `sqlite:///` address or nothing."""
    if store is None:
        return read().store
    text = os.fspath(store).removeprefix("sqlite:///")
    path = Path(text).expanduser().absolute()
    return path / STORE_FILE if path.is_dir() else path


def elsewhere(option: str = "") -> str:
    """Return the hint for a folder that cannot be written. option: what names another one, beside KERNELFORGE_HOME."""
    return f"name another place with KERNELFORGE_HOME{f' or {option}' if option else ''}, or free space there"


def writable_folder(folder: Path, purpose: str, hint: str = elsewhere("--store")) -> Path:
    """Create `folder` and write a page into it, so that an unwritable or full place is told before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as e:
        raise EnvironmentFault(
            f"write the {purpose} in `{folder}`: {e.strerror or e}",
            hint=hint,
        ) from e
    return folder


def scratch_folder() -> Path:
    """Return the folder of temporary files, tried: `TMPDIR`, else `/tmp`. The core is told this one; it does not see a later TMPDIR."""
    folder = Path(os.environ.get("TMPDIR") or "/tmp").absolute()
    hint = "set TMPDIR to a folder of yours with free space"
    if not folder.is_dir():
        raise EnvironmentFault(f"write temporary files in `{folder}`: there is no such folder", hint=hint)
    return writable_folder(folder, "temporary files", hint)


def pack_place(folder: Path) -> Path:
    """Return a folder that a pack can be written to: absent, empty, or a pack and nothing else; its parent is made and tried.

    Raises:
        UsageFault: something else lies there.
        EnvironmentFault: its parent cannot be written.
    """
    from ._folder import strangers

    hint = "name a new folder, an empty one, or that of a pack with `out` (--out)"
    try:
        there = folder.is_symlink() or folder.exists()
        if there and (folder.is_symlink() or not folder.is_dir()):
            raise UsageFault(f"write the pack `{folder}`: a file of this name is there", hint=hint)
        if there and any(folder.iterdir()) and not (folder / "pack.json").is_file():
            raise UsageFault(f"write the pack `{folder}`: this folder is no pack, and not empty", hint=hint)
        if there and (others := strangers(folder)):
            raise UsageFault(
                f"write the pack `{folder}`: `{others[0]}` lies in it, which no pack has and writing would delete",
                hint="move it away, or name another folder with `out` (--out)",
            )
    except OSError as e:
        raise EnvironmentFault(f"write the pack `{folder}`: {e.strerror or e}", hint=hint) from e
    writable_folder(
        folder.parent, "pack", "name a folder that you can write with `out` (--out), or free space there"
    )
    return folder


def file_place(path: str | os.PathLike[str], option: str) -> Path:
    """Return a path that a file can be written to; its folder is made and tried.

    Raises:
        UsageFault: a folder lies there.
        EnvironmentFault: its folder cannot be written.
    """
    file = Path(path).absolute()
    if file.is_dir():
        raise UsageFault(f"write `{file}`: a folder of this name is there", hint=f"name a file with {option}")
    writable_folder(
        file.parent, "file of " + option, f"name a file in a folder that you can write with {option}"
    )
    return file


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes where `folder` is or would be, or None if that cannot be told."""
    for place in (folder, *folder.parents):
        if place.exists():
            try:
                return shutil.disk_usage(place).free
            except OSError:
                return None
    return None


def compiler() -> str | None:
    """Return the C++ compiler for host candidates, or None: `KERNELFORGE_CXX`, else `g++`, else `clang++` on PATH."""
    asked = read().compiler
    for name in (asked,) if asked else ("g++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    return None


def no_compiler() -> tuple[str, str]:
    """Return what was found in place of a compiler, and the hint."""
    asked = read().compiler
    found = (
        f"the compiler `{asked}` of KERNELFORGE_CXX is not there"
        if asked
        else "no C++ compiler found (looked for g++, clang++)"
    )
    return (
        found,
        "install g++ (Debian: apt-get install g++) or set KERNELFORGE_CXX; packs that exist are served without one",
    )
