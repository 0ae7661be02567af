"""Functions of the user's as authors: each gets a brief and gives a candidate, or none.

It owns calling them. An exception of theirs ends their part of the search, never the search.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._inputs import name_of
from .errors import UsageFault

log = logging.getLogger("kernelforge")

Author = Callable[[dict[str, Any]], "tuple[str, Mapping[str, Any]] | None"]


class Callers:
    """The functions of one call of `optimize`, by the names that logs and reports know them by: `call:my_function`."""

    def __init__(self, authors: Iterable[Any]) -> None:
        self._known: dict[str, Author] = {}
        for author in authors:
            if not callable(author):
                raise UsageFault(
                    f"search with the author {author!r}: it is no function",
                    hint="give functions `(brief) -> (source, spec) | None`",
                )
            stem = name = f"call:{name_of(author)}"
            while name in self._known:
                name = f"{stem}-{len(self._known) + 1}"
            self._known[name] = author

    @property
    def names(self) -> list[str]:
        return list(self._known)

    def beside(
        self, execute: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Return what carries out the tasks for these functions, and all others as `execute` does."""
        return lambda task: self.propose(task) if task["kind"] == "propose" else execute(task)

    def propose(self, task: dict[str, Any]) -> dict[str, Any]:
        """Carry out the task `propose` (docs/formats.md, `tasks`)."""
        name = task["author"]
        try:
            given = self._known[name](task["brief"])
            return {"candidate": _candidate(given), "raised": ""}
        except Exception as e:
            last = f"{type(e).__name__}: {e}".strip()
            log.error(
                "author `%s` raised, and is asked no more in this search; the others go on",
                name,
                exc_info=e,
            )
            return {"candidate": None, "raised": last}


def _candidate(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], str):
        raise TypeError(
            f"an author returned {type(given).__name__} (expected (source, spec) or None, source a text, spec a dict)"
        )
    source, spec = given
    if not isinstance(spec, Mapping):
        raise TypeError(f"an author returned a spec of type {type(spec).__name__} (expected a dict)")
    spec = json.loads(json.dumps(dict(spec)))  # as the core will read it; what JSON cannot hold raises here
    return {"source": source, "spec": spec, "change": str(spec.pop("idea", ""))}
