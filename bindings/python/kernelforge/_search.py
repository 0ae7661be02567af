"""Drives one study of the core: start, poll, carry out the referee's tasks, answer, show progress, close; Ctrl-C once saves, twice stops.

It owns the loop and a session's two ends. It refuses to decide anything about the search: that is the core's.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import _core, _interrupts
from ._progress import Progress
from .errors import Interrupted, KernelForgeError, UsageFault, from_core

log = logging.getLogger("kernelforge")
_POLL_MS = 200
_END_SECONDS = 20.0  # for a study that was stopped to end its workers and remove its temporary files
_GOES_ON = "what was measured is saved, the same call resumes it"
_REPORT = "ops=[...] leaves the operator out, and the same call resumes; please report this with the traceback that `-v` shows"


@dataclass
class Outcome:
    """How a study ended, and what the loop saw on the way."""

    progress: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)  # by kind of task
    model: dict[str, Any] | None = (
        None  # the last answer of the referee to `confirm_model`, with the ids of its plans
    )


@contextlib.contextmanager
def opened(study: str, operation: str, /, **request: Any) -> Iterator[None]:
    """Start a study, or another session of the core, and close it after the block: whatever ends the block, the core has then given back what it held."""
    with _interrupts.handled(f"search `{study}`", _GOES_ON) as interrupts:
        before, interrupts.patient = interrupts.patient, True
        ours = True  # unless the core refuses: an interrupt may come before its answer is read
        try:
            try:
                _core.call(operation, **request)
            except KernelForgeError:
                ours = False
                raise
            yield
        except BaseException as e:
            if ours and not isinstance(e, KernelForgeError):
                _stop(study)
            raise
        finally:
            interrupts.patient = before
            if ours:
                with contextlib.suppress(KernelForgeError):
                    _core.call("study.close", study=study)
        if not before:
            interrupts.look()  # one that came with the last answer


class Search:
    """A study that was started, as its user's process sees it: what happened, and the referee's tasks.

    Args:
        execute: carries out one task of docs/formats.md, `tasks`, and returns its result.
        watch: is called with each event, in order.
    """

    def __init__(
        self,
        study: str,
        execute: Callable[[dict[str, Any]], dict[str, Any]],
        progress: Progress,
        watch: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.study, self.progress, self.outcome, self.done = study, progress, Outcome({}), False
        self._execute, self._watch = execute, watch

    def step(self) -> None:
        """Wait a moment for what is new, and carry out the tasks that wait.

        Raises:
            KernelForgeError: the study failed (a broken harness, a full disk): what was measured is saved.
        """
        answer = _core.call("study.poll", study=self.study, timeout_ms=_POLL_MS)
        self.outcome.progress = answer["progress"]
        for event in answer["events"]:
            log.debug("%s", event)
            if self._watch is not None:
                self._watch(event)
        self.progress.show(answer["progress"])
        for task in answer["tasks"]:
            _carry_out(self.study, task, self._execute, self.outcome)
        if answer["state"] == "failed":
            error = answer["error"]
            raise from_core(error["code"], error["text"], error["hint"] or _resume(self.study))
        self.done = answer["state"] == "done"

    def finish(self) -> None:
        """End after the running measurement; what was judged is saved, what is to be confirmed waits for the next call."""
        _core.call("study.cancel", study=self.study, now=False)

    def conclude(self) -> None:
        """Tell a study that attends to judge what waits, confirm its winners and end."""
        _core.call("study.conclude", study=self.study)

    def stop(self) -> None:
        """Stop at once; the core has given back what it holds when this returns."""
        self.progress.clear()
        _stop(self.study)

    def close(self) -> None:
        """Forget the study."""
        self.progress.clear()
        with contextlib.suppress(KernelForgeError):
            _core.call("study.close", study=self.study)


def drive(
    study: str,
    execute: Callable[[dict[str, Any]], dict[str, Any]],
    progress: Progress,
    watch: Callable[[dict[str, Any]], None] | None = None,
    again: str = "the same call",
) -> Outcome:
    """Run a study that is `opened` to its end. The arguments are those of `Search`; again: what resumes it, in words.

    Raises:
        Interrupted: after Ctrl-C; what was measured is saved.
        KernelForgeError: the study failed (a broken harness, a full disk): what was measured is saved as well.
    """
    search = Search(study, execute, progress, watch)
    asked = False
    try:
        with _interrupts.handled(f"search `{study}`", _GOES_ON) as interrupts:
            while not search.done:
                interrupts.raise_again()
                if interrupts.count and not asked:
                    asked = True
                    progress.say("finishing the running measurement; Ctrl-C again stops at once")
                    search.finish()
                search.step()
        if asked:
            raise Interrupted(_saved(study, search.outcome.progress, again))
        progress.show(search.outcome.progress, force=True)
        return search.outcome
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(_saved(study, search.outcome.progress, again)) from None
    finally:
        progress.clear()


def _stop(study: str) -> None:
    """Stop a study at once, and wait until the core has given back what it holds: a process that ends before would leave its temporary files."""
    until = time.monotonic() + _END_SECONDS
    with contextlib.suppress(KernelForgeError):  # it may not have started
        _core.call("study.cancel", study=study, now=True)
        while time.monotonic() < until:
            if _core.call("study.poll", study=study, timeout_ms=_POLL_MS)["state"] in ("done", "failed"):
                return


def _carry_out(
    study: str, task: dict[str, Any], execute: Callable[[dict[str, Any]], dict[str, Any]], outcome: Outcome
) -> None:
    """Execute one task and answer it; an exception of the referee is an answer too, and the core decides what it ends."""
    started = time.monotonic()
    kind = task["kind"]
    try:
        answer = {"result": execute(task)}
    except Exception as e:
        _interrupts.look()
        log.debug("task %s failed", kind, exc_info=True)
        own = e if isinstance(e, KernelForgeError) else KernelForgeError(f"{kind}: {type(e).__name__}: {e}")
        answer = {"error": {"code": "referee", "text": own.text, "hint": own.hint or _REPORT}}
    outcome.seconds[kind] = outcome.seconds.get(kind, 0.0) + time.monotonic() - started
    if kind == "confirm_model" and "result" in answer:
        outcome.model = {**answer["result"], "plans": [p["plan"]["id"] for p in task["plans"]]}
    # The search may end while an author thinks: nobody waits for its answer then.
    with contextlib.suppress(*([UsageFault] if kind == "propose" else [])):
        _core.call("study.answer", study=study, task=task["task"], **answer)


def _resume(study: str) -> str:
    return f"what was measured is saved: the same call resumes the study `{study}`"


def _saved(study: str, progress: dict[str, Any], again: str) -> str:
    done, budget = progress.get("candidates", 0), progress.get("candidates_budget", 0)
    return f"search `{study}`: interrupted after {done} of {budget} candidates; they are saved\nhint: {again} resumes it; `kernelforge show {study}` shows what there is"
