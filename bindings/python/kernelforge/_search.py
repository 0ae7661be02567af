"""Drives one study of the core: poll, carry out the referee's tasks, answer, show progress; Ctrl-C once saves, twice stops.

It owns the loop and the interrupt. It refuses to decide anything about the search: that is the core's.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from . import _core
from ._progress import Progress
from .errors import Interrupted, KernelForgeError, from_core

log = logging.getLogger("kernelforge")
_POLL_MS = 200
_REPORT = "ops=[...] leaves the operator out, and the same call resumes; please report this with the traceback that `-v` shows"


@dataclass
class Outcome:
    """How a study ended, and what the loop saw on the way."""

    progress: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)  # by kind of task
    model: dict[str, Any] | None = (
        None  # the last answer of the referee to `confirm_model`, with the ids of its plans
    )


class _Interrupts:
    """Counts Ctrl-C while a search runs. The first is kept for the loop; the second raises KeyboardInterrupt where the program is."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None
        self._ours = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> _Interrupts:
        # A program that handles SIGINT itself keeps its handler.
        if self._ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._on)
        return self

    def _on(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


def drive(study: str, execute: Callable[[dict[str, Any]], dict[str, Any]], progress: Progress) -> Outcome:
    """Run a started study to its end.

    Args:
        execute: carries out one task of docs/formats.md, `tasks`, and returns its result.

    Raises:
        Interrupted: after Ctrl-C; what was measured is saved.
        KernelForgeError: the study failed (a broken harness, a full disk): what was measured is saved as well.
    """
    outcome = Outcome({})
    asked = False
    try:
        with _Interrupts() as interrupts:
            while True:
                if interrupts.count and not asked:
                    asked = True
                    progress.say("finishing the running measurement; Ctrl-C again stops at once")
                    _core.call("study.cancel", study=study, now=False)
                answer = _core.call("study.poll", study=study, timeout_ms=_POLL_MS)
                outcome.progress = answer["progress"]
                for event in answer["events"]:
                    log.debug("%s", event)
                progress.show(answer["progress"])
                for task in answer["tasks"]:
                    _carry_out(study, task, execute, outcome)
                if answer["state"] == "failed":
                    error = answer["error"]
                    raise from_core(error["code"], error["text"], error["hint"] or _resume(study))
                if answer["state"] == "done":
                    break
        if asked:
            raise Interrupted(_saved(study, outcome.progress))
        progress.show(outcome.progress, force=True)
        return outcome
    except KeyboardInterrupt as e:
        if not isinstance(e, Interrupted):
            _core.call("study.cancel", study=study, now=True)
            raise Interrupted(_saved(study, outcome.progress)) from None
        raise
    finally:
        progress.clear()
        _core.call("study.close", study=study)


def _carry_out(
    study: str, task: dict[str, Any], execute: Callable[[dict[str, Any]], dict[str, Any]], outcome: Outcome
) -> None:
    """Execute one task and answer it; an exception of the referee is an answer too, and the core decides what it ends."""
    started = time.monotonic()
    kind = task["kind"]
    try:
        answer = {"result": execute(task)}
    except Exception as e:
        log.debug("task %s failed", kind, exc_info=True)
        own = e if isinstance(e, KernelForgeError) else KernelForgeError(f"{kind}: {type(e).__name__}: {e}")
        answer = {"error": {"code": "referee", "text": own.text, "hint": own.hint or _REPORT}}
    outcome.seconds[kind] = outcome.seconds.get(kind, 0.0) + time.monotonic() - started
    if kind == "confirm_model" and "result" in answer:
        outcome.model = {**answer["result"], "plans": [p["plan"]["id"] for p in task["plans"]]}
    _core.call("study.answer", study=study, task=task["task"], **answer)


def _resume(study: str) -> str:
    return f"what was measured is saved: the same call resumes the study `{study}`"


def _saved(study: str, progress: dict[str, Any]) -> str:
    done, budget = progress.get("candidates", 0), progress.get("candidates_budget", 0)
    return f"search `{study}`: interrupted after {done} of {budget} candidates; they are saved\nhint: the same call resumes it; `kernelforge show {study}` shows what there is"
