"""`kernelforge profile MODEL`: where the time goes."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import _settings
from . import options

_LEAST = 0.0005  # of the forward: below, a share is written as 0.0 %


def add(p: argparse.ArgumentParser) -> None:
    options.add_model(p)
    p.add_argument("--html", metavar="FILE", help="write the profile as a page, too")
    p.add_argument("--all", action="store_true", help="show operators below 0.05 %% of the forward, too")


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
    data = result.to_dict()
    shown = None if args.all else sum(r["share"] >= _LEAST for r in data["rows"])
    options.emit(args, data, result.table(row_limit=shown))
    if shown is not None and shown < len(data["rows"]) and not args.json:
        options.say("`--all` shows the operators that take next to nothing, too")
    return 0
