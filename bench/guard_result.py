"""The numbers of a guard fuzz (bench/guard.py) and their file: counted by call, operator, reason and change, saved every few seconds, taken up again."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

SAVE_SECONDS = 5.0
KEPT = 50  # failures with their details


class Result:
    """What is known so far; the JSON file."""

    def __init__(self, path: Path, head: dict[str, Any], fresh: bool) -> None:
        self.path, self.saved, self.lock = path, time.monotonic(), threading.Lock()
        zero = {
            "guard_calls": 0,
            "served": 0,
            "errors": 0,
            "wrong": 0,
            "crashes": 0,
            "eager_crashes": 0,
            "reasons": {},
            "changes": {},
        }
        self.data: dict[str, Any] = {
            **head,
            **zero,
            "by_op": {},
            "failures": [],
            "next": list(range(head["jobs"])),
            "seconds": 0.0,
        }
        with contextlib.suppress(OSError, ValueError, KeyError):
            old = json.loads(path.read_text())
            if not fresh and all(old[k] == head[k] for k in ("seed", "target", "build", "jobs")):
                self.data = {**old, **head}

    def _op(self, overload: str) -> dict[str, Any]:
        zero = {"calls": 0, "served": 0, "reasons": {}, "wrong": 0, "crashes": 0, "eager_crashes": 0}
        op: dict[str, Any] = self.data["by_op"].setdefault(overload, zero)
        return op

    def add(self, lane: int, line: dict[str, Any], again: str) -> None:
        with self.lock:
            d, op = self.data, self._op(line["overload"])
            d["guard_calls"] += 1
            op["calls"] += 1
            d["errors"] += bool(line["error"])
            for where in (d, op):
                where["served"] += line["hits"] > 0
                where["wrong"] += bool(line["wrong"])
                for reason, count in line["reasons"].items():
                    where["reasons"][reason] = where["reasons"].get(reason, 0) + count
            for note in line["notes"] or ["unchanged"]:
                d["changes"][note] = d["changes"].get(note, 0) + 1
            if line["wrong"]:
                self.fail(line["overload"], line["notes"], line["wrong"], again)
            d["next"][lane] = line["done"] + len(d["next"])
            self.save()

    def crash(self, lane: int, begun: dict[str, Any], text: str, again: str, alone: bool) -> None:
        """Count a call that ended its child. alone: eager without any hook ends its process there, too; that is torch's crash."""
        with self.lock:
            op = self._op(begun["overload"])
            for where in (self.data, op):
                where["eager_crashes" if alone else "crashes"] += 1
            self.data["guard_calls"] += 1
            op["calls"] += 1
            self.data["next"][lane] = begun["begin"] + len(self.data["next"])
            if not alone:
                self.fail(begun["overload"], begun.get("notes", []), text, again)
            self.save(now=True)

    def fail(self, overload: str, notes: list[str], detail: str, again: str) -> None:
        if len(self.data["failures"]) < KEPT:
            self.data["failures"].append(
                {"overload": overload, "changes": notes, "detail": detail[:1500], "again": again}
            )

    def save(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self.saved > SAVE_SECONDS:
            self.saved = time.monotonic()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(f".{os.getpid()}.tmp")
            beside.write_text(json.dumps(self.data, indent=1, sort_keys=False) + "\n")
            beside.replace(self.path)
