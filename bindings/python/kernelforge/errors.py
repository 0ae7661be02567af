"""One exception tree. Every error says what was tried, on which thing, what was found; `hint` says what the reader can do.

A subclass also inherits the builtin that users would catch. `exit_code` is what the command line ends with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

EXIT_CODES = {
    0: "ok",
    1: "internal error",
    2: "wrong usage",
    3: "nothing gained (only with --fail-if-no-gain)",
    4: "verification failed",
    5: "the environment lacks something (torch, compiler, built extension, writable folder)",
    6: "budget or endpoint",
    7: "store locked by another search, or written by a newer version",
    130: "interrupted; what was measured is saved",
}


class KernelForgeError(Exception):
    """Root of the tree. `str(e)` is the text; `e.hint` what to do; `e.exit_code` as in EXIT_CODES."""

    exit_code = 1

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\nhint: {self.hint}" if self.hint else text

    @property
    def text(self) -> str:
        """The error without its hint."""
        return super().__str__()


class UsageFault(KernelForgeError, ValueError):
    """An argument cannot be what was given."""

    exit_code = 2


class ModelFault(KernelForgeError, RuntimeError):
    """The model raised, or its inputs do not fit together."""

    exit_code = 2


class EnvironmentFault(KernelForgeError, RuntimeError):
    """Something that is needed is missing here: torch, the built extension, a compiler, a writable folder."""

    exit_code = 5


class VerifyFault(KernelForgeError, RuntimeError):
    """A pack, or an operator in it, did not pass its checks."""

    exit_code = 4


class PackFault(KernelForgeError, RuntimeError):
    """A pack is damaged, or was judged on another machine, torch or thread count."""

    exit_code = 4


class BudgetFault(KernelForgeError, RuntimeError):
    """A budget or an endpoint ended the work."""

    exit_code = 6


class StoreFault(KernelForgeError, RuntimeError):
    """The store cannot be used."""

    exit_code = 5


class LockedFault(StoreFault):
    """Another process searches this study, or a newer version wrote the store."""

    exit_code = 7


class RefereeFault(KernelForgeError, RuntimeError):
    """The referee or the judge is broken: a candidate that fails is never an error, this is."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: what was measured is saved; the text says how to resume."""

    exit_code = 130
    hint = ""


_FROM_CORE: dict[str, type[KernelForgeError]] = {
    "bad_request": KernelForgeError,
    "not_found": UsageFault,
    "study_mismatch": UsageFault,
    "locked": LockedFault,
    "schema": LockedFault,
    "store": StoreFault,
    "pack": StoreFault,
    "judge": EnvironmentFault,
    "referee": RefereeFault,
    "propose": RefereeFault,
    "fork": EnvironmentFault,
    "budget": BudgetFault,
}


def from_core(code: str, text: str, hint: str = "") -> KernelForgeError:
    """Return the exception for an error of the core (docs/formats.md, `the core library`)."""
    return _FROM_CORE.get(code, KernelForgeError)(text, hint)


@contextlib.contextmanager
def of_the_user() -> Iterator[None]:
    """Call a request that the core cannot read wrong usage: inside the block it holds what a user gave, as it was given."""
    try:
        yield
    except KernelForgeError as e:
        if type(e) is not KernelForgeError:
            raise
        raise UsageFault(e.text, e.hint) from e
