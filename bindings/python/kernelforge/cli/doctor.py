"""`kernelforge doctor`: what works here. Exit code 0 if optimize works, 5 if not."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap

from .. import _doctor
from . import options

_MARK = {True: "ok", None: "note", False: "missing"}
_WORDS = {
    "apply": "serve packs that exist",
    "profile": "profile a model",
    "optimize": "search kernels for a model",
    "apply on cuda": "serve packs for the GPU",
    "profile on cuda": "profile a model on the GPU",
    "optimize on cuda": "search kernels for a model on the GPU",
}


def add(p: argparse.ArgumentParser) -> None:
    del p


def _row(head: str, words: str) -> str:
    """Return a line, on a terminal broken into lines below each other: elsewhere whoever reads wants one line a check."""
    if not sys.stdout.isatty():
        return head + words
    return textwrap.fill(
        words,
        shutil.get_terminal_size().columns,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def run(args: argparse.Namespace) -> int:
    found = []
    for check in _doctor.checks():
        found.append(check)
        if not args.json:
            print(_row(f"{check.name:<14} {_MARK[check.ok]:<8} ", check.found), flush=True)
            if check.hint:
                print(_row(f"{'':<14} {'':<8} ", f"hint: {check.hint}"), flush=True)
    result = _doctor.summary(found)
    lines = [""]
    for use, answer in result["uses"].items():
        works = "works" if answer["works"] else f"does not work here (see {', '.join(answer['missing'])})"
        lines.append(f"{use:<16} {_WORDS[use]}: {works}")
    if result["uses"]["optimize"]["works"]:
        lines.append("next: `kernelforge demo`, or `kernelforge optimize my_model.py:factory`")
    options.emit(args, result, "\n".join(lines))
    return 0 if result["uses"]["optimize"]["works"] else 5
