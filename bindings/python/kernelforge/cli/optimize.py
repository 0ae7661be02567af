"""`kernelforge optimize MODEL`: search, judge, write a pack, report."""

from __future__ import annotations

import argparse

from .. import _settings
from . import options


def add(p: argparse.ArgumentParser) -> None:
    options.add_model(p)
    options.add_search(p)
    options.add_authors(p)
    p.add_argument(
        "--ops",
        default="auto",
        help="operators to search, separated by commas (patterns allowed); auto: all with a template",
    )
    p.add_argument(
        "--min-share",
        type=float,
        default=0.01,
        help="least share of the forward that is worth a search (0.01)",
    )
    p.add_argument(
        "--tier",
        type=int,
        choices=_settings.TIERS,
        help="sandbox tier of the processes that compile and run candidates; default: the best that holds here (`kernelforge doctor`)",
    )
    p.add_argument("--review", action="store_true", help="leave winners proposed until `kernelforge approve`")
    p.add_argument("--exact", action="store_true", help="serve only plans that are bitwise equal to eager")
    p.add_argument(
        "--tell-inputs",
        action="store_true",
        help="tell authors roughly what inputs hold: mean, deviation, range and zeros, to two digits",
    )
    p.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="fresh processes in each of which a winner must be faster (3; 0: none)",
    )
    p.add_argument("--out", help="folder of the pack; default: in the packs folder of `kernelforge cache`")
    p.add_argument("--html", metavar="FILE", help="write the report as a page, too")
    p.add_argument("--fail-if-no-gain", action="store_true", help="exit with 3 if no operator is served")


def run(args: argparse.Namespace) -> int:
    import torch

    from .. import _pack
    from .._asked import CANDIDATES, PROCESSES
    from .._optimize import optimize, report
    from .._origin import origin_of

    if args.html:
        _settings.file_place(args.html, "--html")
    if args.out:
        _settings.pack_place(_pack.folder_of(args.out))
    made = options.made_from(args)
    if made.note:
        options.say(made.note)
    asked = {
        "ops": args.ops if args.ops == "auto" else [p.strip() for p in args.ops.split(",")],
        "min_share": args.min_share,
        "candidates": args.candidates or CANDIDATES,
        "max_seconds": args.budget_s,
        "tier": args.tier,
        "review": args.review,
        "exact": args.exact,
        "processes": PROCESSES if args.processes is None else args.processes,
    }
    with torch.no_grad():
        optimize(
            made.model,
            made.inputs,
            study=args.study,
            store=args.store,
            seed=args.seed,
            tell_inputs=args.tell_inputs,
            **options.authors_of(args),
            out=args.out,
            name=made.name,
            note=made.note,
            origin=origin_of(options.wanted(args), args.threads, asked),
            **asked,
        )
    result = report(made.model)
    if args.html:
        options.say(f"page: {result.save(args.html)}")
    data = result.to_dict()
    options.emit(args, data, str(result))
    return 3 if args.fail_if_no_gain and not any(r["served"] for r in data["rows"]) else 0
