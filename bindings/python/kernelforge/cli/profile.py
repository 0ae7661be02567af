"""`kernelforge profile MODEL`: where the time goes."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import _settings
from . import options


def add(p: argparse.ArgumentParser) -> None:
    options.add_model(p)
    p.add_argument("--html", metavar="FILE", help="write the profile as a page, too")


def run(args: argparse.Namespace) -> int:
    import torch

    from .._profile import profile
    from .._report import write_whole

    if args.html:
        _settings.file_place(args.html, "--html")
    made = options.made_from(args)
    options.say(made.note or f"profile {made.name}")
    with torch.no_grad():
        result = profile(made.model, made.inputs)
    if args.html:
        write_whole(Path(args.html), result._repr_html_())
        options.say(f"page: {args.html}")
    options.emit(args, result.to_dict(), result.table())
    return 0
