"""`kernelforge report [STUDY]`: the result of a finished study, from the store; needs neither torch nor the extension."""

from __future__ import annotations

import argparse

from .. import _settings
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "study",
        nargs="?",
        metavar="STUDY|MODEL",
        help="name of a study, or a model and its options as given to `optimize`; default: the newest with a result",
    )
    options.add_shape(p)
    options.add_store(p)
    p.add_argument("--html", metavar="FILE", help="write the report as a page that needs nothing but itself")


def run(args: argparse.Namespace) -> int:
    from .._studies import stored_report

    if args.html:
        _settings.file_place(args.html, "--html")
    result = stored_report(options.study_of(args.study, args), args.store)
    if args.html:
        options.say(f"page: {result.save(args.html)}")
    options.emit(args, result.to_dict(), str(result))
    return 0
