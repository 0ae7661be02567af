"""A result file that is saved after each row, and that the same command goes on with: of bench/faults.py, bench/interrupts.py and bench/kills.py.
When it was made is told in the same words by every bench."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import json
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PLACES = {"--out", "--output", "--home", "--cases", "--commit"}  # options that name one
ROOT = Path(__file__).resolve().parent.parent


def now() -> str:
    """Return the time of day in UTC, as results have it: 2026-01-31T12:00:00Z."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def said(bench: str, words: Sequence[str]) -> str:
    """Return a bench's command as its result tells it: without the folders and files of this machine.

    Example:
        >>> said("ops", ["--target", "cuda", "--out", "/tmp/ops.json", "--lanes", "3"])
        'python bench/ops.py --target cuda --lanes 3'
        >>> said("ops", ["--home=/tmp/home", "--only", "softmax dim1*"])
        "python bench/ops.py --only 'softmax dim1*'"
    """
    told = [
        w
        for before, w in zip(["", *words], words, strict=False)
        if not {w.partition("=")[0], before} & PLACES
    ]
    return f"python bench/{bench}.py {shlex.join(told)}".rstrip()


def fits(name: str, pattern: str) -> bool:
    """Return whether a case is meant: a part of its name, or a pattern with * and ?.

    Example:
        >>> fits("softmax dim1 float32", "dim1"), fits("softmax dim1 float32", "*bfloat16")
        (True, False)
    """
    return pattern in name or fnmatch.fnmatch(name, pattern)


def begin(
    out: Path | None, command: str, commit: str | None, about: dict[str, Any], empty: dict[str, Any]
) -> dict[str, Any]:
    """Return the result of an earlier run of this commit that was about the same, or an empty one.

    Args:
        commit: what the result says of the code; None: git's HEAD.
        about: what tells runs apart, as target and seed.
        empty: the fields of a result without rows.
    """
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    head = {
        "schema": 1,
        "made": now(),
        "command": command,
        "commit": commit or git.stdout.strip() or None,
        **about,
    }
    before = of_the_same(out, head, about)
    before.pop("left", None)
    return before or {**head, **empty}


def of_the_same(out: Path | None, result: dict[str, Any], about: Iterable[str]) -> dict[str, Any]:
    """Return what a file holds now if it is of this result's commit and about the same; {} if not.

    about: the names of the fields that tell runs apart.
    """
    if out and out.exists():
        with contextlib.suppress(ValueError):
            before: dict[str, Any] = json.loads(out.read_text())
            if all(before.get(k) == result[k] for k in ("schema", "commit", *about)):
                return before
    return {}


def write(result: dict[str, Any], out: Path | None) -> None:
    """Save a result whole: a reader finds the one before or this one."""
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part")
        part.write_text(json.dumps(result, indent=1) + "\n")
        part.replace(out)
