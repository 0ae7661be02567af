"""`kernelforge run script.py [args]`: the script as it is, with packs applied."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from pathlib import Path

from .. import _settings
from ..errors import UsageFault
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--pack",
        action="append",
        default=[],
        help="pack folder (repeatable); default: KERNELFORGE_PACK, else every pack that fits this machine",
    )
    p.add_argument("--threads", type=options.threads, help="torch's threads; a pin of packs")
    p.add_argument(
        "--device",
        help="CUDA device that packs for CUDA serve on; default: torch's current one, or the one they were judged on",
    )
    options.add_trust(p)
    p.add_argument("--stats", metavar="FILE", help="write the dispatch counters to FILE when the script ends")
    p.add_argument(
        "--strict", action="store_true", help="fail if a pack cannot be used; default: say so and run eager"
    )
    p.add_argument("script", help="Python file, or `-m` style module with --module")
    p.add_argument("--module", action="store_true", help="SCRIPT is the name of a module")
    rest = p.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    rest.required = False  # there may be none: argparse would ask for them where the script is missing


def run(args: argparse.Namespace) -> int:
    if not args.module and not Path(args.script).is_file():
        raise UsageFault(
            f"run `{args.script}`: there is no such file",
            hint="name a Python file, or a module with --module",
        )
    if args.stats:
        _settings.file_place(args.stats, "--stats")
        os.environ["KERNELFORGE_STATS"] = str(Path(args.stats).absolute())
    served = apply_named(args.pack, args.threads, strict=args.strict, device=args.device, trust=args.trust)
    options.say(
        f"kernelforge: {served} plans serve `{args.script}`"
        if served
        else f"kernelforge: no plan serves `{args.script}`; eager runs"
    )
    sys.argv = [args.script, *args.arguments]
    try:
        if args.module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(args.script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(args.script).absolute().parent))
            runpy.run_path(args.script, run_name="__main__")
    except Exception as e:  # the script's own error, shown as Python would show it
        own = e.__traceback__
        while own is not None and _is_ours(own.tb_frame.f_code.co_filename):
            own = own.tb_next
        traceback.print_exception(type(e), e, own or e.__traceback__)
        return 1
    return 0


def _is_ours(filename: str) -> bool:
    return filename == __file__ or "runpy" in filename


def apply_named(
    packs: list[str],
    threads: int | None,
    strict: bool,
    device: str | None = None,
    trust: list[str] | None = None,
) -> int:
    """Apply the packs that were named, else those of KERNELFORGE_PACK, else all in the packs folder that fit here; return the number of plans."""
    from .. import _pack

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    settings = _settings.read()
    named: list[str | Path] = [*packs] or [*settings.packs]
    if named:
        return len(_pack.apply(named, strict=strict, device=device, trust=trust))
    # A name with a dot in front is a pack that is being written.
    found = sorted(p.parent for p in settings.pack_folder.glob("[!.]*/pack.json"))
    return len(_pack.apply(found, strict=False, device=device, trust=trust)) if found else 0
