"""A study that is open for candidates from outside: `ask` what is known of an operator, `tell` a kernel, get its verdict.

It owns the loop between a caller who brings candidates and the core that judges them. It refuses to
propose anything: the caller does. Candidates travel by the study's inbox, so several callers, this process or others, may bring them at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import _core, _ext, _interrupts, _origin, _outcome, _search, _settings, _studies
from ._asked import CANDIDATES, PROCESSES, Asked
from ._inputs import name_of
from ._job import Job
from ._report import Report
from ._state import kept
from .errors import KernelForgeError, RefereeFault, UsageFault, of_the_user

WAITING, UNJUDGED = "waiting", "unjudged"
_LOOK_SECONDS = 0.5  # between looks at a verdict that another process will bring
_COUNT_SECONDS = 25.0  # for the counters of a parent: one reading, and a candidate before it


class Study:
    """A model's study, opened for candidates of a person, a coding agent or a program.

    Use it as a context manager: leaving it confirms the best candidates and serves those that are shown to be faster; an exception on the way out
    only saves. `report` is there afterwards. The arguments are those of `kernelforge.optimize`; nothing is searched.

    Raises:
        UsageFault, ModelFault, EnvironmentFault, LockedFault: as `optimize` does.

    Example:
        >>> with kernelforge.Study(model, (x,), ops="addmm") as study:
        ...     brief = study.ask("addmm")
        ...     verdict = study.tell("addmm", source, spec, idea="tiles of 8 rows")
        >>> print(verdict["verdict"]["status"], study.report)
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        *,
        study: str | None = None,
        store: str | os.PathLike[str] | None = None,
        ops: str | Sequence[str] = "auto",
        min_share: float = 0.01,
        seed: int = 0,
        tier: int | None = None,
        review: bool = False,
        exact: bool = False,
        tell_inputs: bool = False,
        processes: int = PROCESSES,
        out: str | os.PathLike[str] | None = None,
        progress: str | bool = "auto",
        name: str | None = None,
        note: str = "",
    ) -> None:
        asked = Asked(
            study=study,
            store=_settings.store_path(store),
            ops=ops if isinstance(ops, str) else tuple(sorted(ops)),
            min_share=min_share,
            candidates=CANDIDATES,
            max_seconds=None,
            seed=seed,
            tier=tier,
            review=review,
            exact=exact,
            tell_inputs=tell_inputs,
            processes=processes,
            out=out,
            fresh=False,
            progress=progress,
            name=name or name_of(model),
            note=note,
        )
        self._open(model, inputs, asked)

    @classmethod
    def again(
        cls,
        study: str,
        store: str | os.PathLike[str] | None = None,
        *,
        model: str | None = None,
        progress: str | bool = "auto",
    ) -> Study:
        """Open a study that `kernelforge optimize MODEL` began, with the same model and the same wishes.

        Args:
            model: where the model is now, as for the command; None: as the study recorded it, a file in the current folder.

        Raises:
            UsageFault: there is no such study, or a program began it: that program can open it with `Study(...)`.
        """
        return cls.reopened(*_origin.made_again(study, store, model, progress))

    @classmethod
    def reopened(cls, model: Any, inputs: Any, asked: Asked) -> Study:
        """Open a study for a model that was made again."""
        self = cls.__new__(cls)
        self._open(model, inputs, asked)
        return self

    def _open(self, model: Any, inputs: Any, asked: Asked) -> None:
        self.report: Report | None = None
        self._new_plans = False
        self._stack = contextlib.ExitStack()
        self._job = Job(model, inputs, dataclasses.replace(asked, attend=True))
        self._search: _search.Search | None = None
        with self._inside():
            stored = self._job.begin()
            if stored is not None:
                self._job.keep_cards(stored)
            if not self._job.cards:
                raise UsageFault(
                    f"open a study of `{asked.name}`: no operator is worth a search",
                    hint="`kernelforge profile` shows them; ops=... and min_share=... choose others",
                )
            self.name, self.store = self._job.study, self._job.store
            self._began = time.monotonic()
            referee = self._stack.enter_context(self._job.referee())
            self._search = _search.Search(self.name, referee.execute, self._job.bar, self._watch)
            _core.call("study.start", **self._job.request())

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Do something of the study: the model's state, the device and the process's one measurement are taken for that time only. An interrupt in it
        stops the study."""
        job = self._job
        with (
            _interrupts.handled(f"study of `{job.asked.name}`", "what was judged is saved"),
            _ext.measuring(),
            job.place.current(),
            kept(job.model, job.inputs, job.place),
        ):
            try:
                yield
            except BaseException as e:
                if not isinstance(e, KernelForgeError):
                    self.stop()
                raise

    def _watch(self, event: dict[str, Any]) -> None:
        self._new_plans = self._new_plans or event["kind"] in ("plan", "decision")

    @property
    def done(self) -> bool:
        """Whether the study has ended."""
        return self._search is None or self._search.done

    def cards(self) -> list[dict[str, Any]]:
        """Return the study's operators, the most worthwhile first: [{"card", "overload", "share", "eager_us", "best", "nodes"}]."""
        return cards(self.name, self.store)

    def ask(self, card: str, *, parent: int = 0) -> dict[str, Any]:
        """Return what an author is told before it writes a candidate (docs/formats.md, `brief`); `text` is the same for people.

        Args:
            card: a card's id, or a part of its operator's name that fits one card alone.
            parent: the node to improve on; 0 is eager.
        """
        return ask(self.name, self.store, card, parent, _nothing if self.done else self.pump)

    def tell(
        self,
        card: str,
        source: str,
        spec: Mapping[str, Any],
        *,
        parent: int = 0,
        idea: str = "",
        author: str = "person",
    ) -> dict[str, Any]:
        """Have a candidate judged, and return its answer (docs/formats.md, `store.answer`): `answer["verdict"]` says how it ended.

        Args:
            source: the kernel's code.
            spec: its launch spec.
            idea: what differs from the parent, in words.
            author: "person" or "agent".

        Raises:
            UsageFault: the spec is malformed, there is no such card or parent, the source is too large.
            RefereeFault: the card cannot be judged here.
        """
        sent = submit(self.name, self.store, card, source, spec, parent=parent, idea=idea, author=author)
        return self.answer(sent["card"], sent["candidate"])

    def answer(self, card: str, candidate: str) -> dict[str, Any]:
        """Wait for the answer to a candidate that was submitted. card, candidate: their ids."""
        while True:
            answer = answer_of(self.name, self.store, card, candidate)
            if answer["state"] == UNJUDGED:
                raise RefereeFault(f"judge `{candidate}` on the card `{card}`: {answer['why']}")
            if answer["state"] != WAITING:
                return answer
            self.pump()

    def pump(self) -> None:
        """Judge what waits, for a moment.

        Raises:
            UsageFault: the study has ended.
        """
        if self._search is None or self._search.done:
            raise UsageFault(
                f"judge a candidate of `{self.name}`: the study has ended", hint="open it again: Study(...)"
            )
        with self._inside():
            self._search.step()

    def close(self, *, serve: bool = True) -> Report | None:
        """End the study: confirm the best candidates and serve those that are faster; return the report if anything changed.

        Args:
            serve: False only saves; the next call of `optimize`, or of `Study`, confirms.
        """
        search = self._search
        if search is None or search.done:
            return self.report
        with self._inside():
            try:
                if serve:
                    search.conclude()
                else:
                    search.finish()
                while not search.done:
                    search.step()
            finally:
                self._end()
            self._job.account(search.outcome, self._began)
            if serve and self._new_plans:
                self.report = _outcome.finish(self._job, search.outcome)
        return self.report

    def stop(self) -> None:
        """Stop at once; what was judged is saved."""
        if self._search is not None and not self._search.done:
            self._search.stop()
        self._end()

    def _end(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search.done = True
        self._stack.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.stop()


# ---- what is stored ---------------------------------------------------------------------------------------------


def cards(study: str, store: str | os.PathLike[str] | None) -> list[dict[str, Any]]:
    """Return the operators of a stored study, the most worthwhile first."""
    path = str(_settings.store_path(store))
    return list(_core.call("store.cards", store=path, study=study)["value"])


def card_of(study: str, store: str | os.PathLike[str] | None, card: str) -> str:
    """Return the id of the card that is meant: by its id, its overload, or a part of that which fits one card alone.

    Raises:
        UsageFault: none fits, or several do.
    """
    path = str(_settings.store_path(store))
    return str(_core.call("store.card", store=path, study=study, card=card)["card"])


def _nothing() -> None:
    time.sleep(_LOOK_SECONDS)


def ask(
    study: str,
    store: str | os.PathLike[str] | None,
    card: str,
    parent: int = 0,
    meanwhile: Callable[[], None] = _nothing,
) -> dict[str, Any]:
    """Return the brief of a stored study's card.

    Args:
        meanwhile: called while a process that runs the study reads the parent's hardware counters.
    """
    about = {"store": str(_settings.store_path(store)), "study": study, "run": card_of(study, store, card)}
    until, send = time.monotonic() + _COUNT_SECONDS, True
    while _core.call("store.count", **about, node=parent, send=send)["waits"] and time.monotonic() < until:
        meanwhile()
        send = False
    told = _core.call("store.brief", **about, parent=parent)
    return {**told["brief"], "text": told["text"]}


def submit(
    study: str,
    store: str | os.PathLike[str] | None,
    card: str,
    source: str,
    spec: Mapping[str, Any],
    *,
    parent: int = 0,
    idea: str = "",
    author: str = "person",
) -> dict[str, Any]:
    """Send a candidate to a study: {"card", "candidate", "queued": another process runs the study}."""
    path = str(_settings.store_path(store))
    run = card_of(study, store, card)
    candidate = {
        "id": "",
        "author": author,
        "family": "",
        "params": {},
        "change": idea,
        "source": source,
        "spec": dict(spec),
    }
    with of_the_user():
        sent = _core.call(
            "store.submit", store=path, study=study, run=run, parent=parent, candidate=candidate, by=author
        )
    return {"card": run, **sent}


def answer_of(study: str, store: str | os.PathLike[str] | None, card: str, candidate: str) -> dict[str, Any]:
    """Return what became of a candidate. card, candidate: their ids."""
    path = str(_settings.store_path(store))
    return _core.call("store.answer", store=path, study=study, run=card, candidate=candidate)


def running(study: str, store: str | os.PathLike[str] | None) -> bool:
    """Return whether a process runs the study."""
    return bool(_studies.load(study, store)["running"])


def wait(
    study: str, store: str | os.PathLike[str] | None, card: str, candidate: str
) -> dict[str, Any] | None:
    """Wait for the answer that the process which runs the study brings; None if that process ended without one."""
    while True:
        runs = running(study, store)  # first: an answer may come while it ends
        answer = answer_of(study, store, card, candidate)
        if answer["state"] != WAITING:
            return answer
        if not runs:
            return None
        time.sleep(_LOOK_SECONDS)
