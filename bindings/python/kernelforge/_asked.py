"""What a call of `optimize` asks for, checked before anything is done.

It owns what cannot be. It refuses to look at the model.
"""

from __future__ import annotations

import difflib
import fnmatch
import numbers
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _authors, _settings
from .errors import UsageFault

CANDIDATES = 24  # an operator; good starts come first, so most of the gain is in the first dozen
PROCESSES = 3  # fresh ones for winners: docs/decisions.md
_MOST_PROCESSES = 64
_MOST = 10**9  # candidates, seconds
_STUDY_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"  # as the store has it


@dataclass(frozen=True)
class Asked:
    """The arguments of `optimize`, checked."""

    study: str | None
    store: Path
    ops: str | tuple[str, ...]
    min_share: float
    candidates: int
    max_seconds: float | None
    seed: int
    tier: int | None
    review: bool
    exact: bool
    processes: int
    out: str | os.PathLike[str] | None
    fresh: bool
    progress: str | bool
    name: str
    note: str
    origin: dict[str, Any] | None = None  # what a command needs to make the model again
    authors: _authors.Authors = _authors.NONE  # who propose beside the templates
    tell_inputs: bool = False  # authors are told roughly what inputs hold
    attend: bool = False  # nobody proposes: candidates from outside are judged

    def __post_init__(self) -> None:
        whole, any_ = (numbers.Integral, "a whole number"), (numbers.Real, "a number")
        kinds = {"candidates": whole, "processes": whole, "seed": whole, "min_share": any_}
        if self.max_seconds is not None:
            kinds["max_seconds"] = any_
        for name, (kind, expected) in kinds.items():
            if not isinstance(value := getattr(self, name), kind):
                raise UsageFault(f"optimize with {name}={value!r}: expected {expected}")
        if self.study is not None and not re.fullmatch(_STUDY_NAME, self.study):
            raise UsageFault(
                f"optimize into the study `{self.study}`: this cannot be a name",
                hint="use letters, digits, `_`, `.` and `-`, at most 64",
            )
        if not 0 <= self.min_share <= 1:
            raise UsageFault(f"optimize with min_share={self.min_share}: it is a share (expected 0 to 1)")
        if self.candidates < 1 or (self.max_seconds is not None and not self.max_seconds > 0):
            given = f"candidates={self.candidates}, max_seconds={self.max_seconds}"
            raise UsageFault(f"optimize with {given}: nothing could be tried (expected 1 or more, above 0)")
        if self.candidates > _MOST or (self.max_seconds is not None and self.max_seconds > _MOST):
            given = f"candidates={self.candidates}, max_seconds={self.max_seconds}"
            raise UsageFault(
                f"optimize with {given}: expected at most {_MOST}", hint="max_seconds=None sets no limit"
            )
        if not 0 <= self.processes <= _MOST_PROCESSES:
            raise UsageFault(
                f"optimize with processes={self.processes}: expected 0 (none) to {_MOST_PROCESSES} fresh processes"
            )
        if not -(2**63) <= self.seed < 2**63:
            raise UsageFault(f"optimize with seed={self.seed}: expected a number of 64 bits")
        if self.tier not in (None, *_settings.TIERS):
            raise UsageFault(
                f"optimize with tier={self.tier}: there is no such sandbox tier (expected one of {', '.join(map(str, _settings.TIERS))})",
                hint="tier=None takes the best one that holds here; `kernelforge doctor` tries them",
            )

    def wants(self, overload: str) -> bool:
        """Return whether `ops` names this overload."""
        patterns = (self.ops,) if isinstance(self.ops, str) else self.ops
        names = (overload, overload.removeprefix("aten::"))
        return self.ops == "auto" or any(fnmatch.fnmatchcase(n, p) for n in names for p in patterns)

    def check_ops(self, known: Iterable[str]) -> None:
        """Refuse a pattern of `ops` that fits none of the overloads that are hooked: it is a slip, and nothing would be searched for it."""
        overloads = sorted(known)
        short = [o.removeprefix("aten::") for o in overloads]
        for pattern in (self.ops,) if isinstance(self.ops, str) else self.ops:
            if pattern == "auto" or fnmatch.filter([*overloads, *short], pattern):
                continue
            near = difflib.get_close_matches(pattern.removeprefix("aten::").rstrip("*"), short, 5, 0.5)
            raise UsageFault(
                f"optimize with ops=`{pattern}`: it fits no operator that is hooked"
                + (f" (near: {', '.join(near)})" if near else ""),
                hint="`kernelforge profile MODEL` lists a model's operators; patterns such as `max_pool2d*` are allowed",
            )
        if not self.ops:
            raise UsageFault("optimize with ops=[]: no operator is named", hint='ops="auto" takes all')
