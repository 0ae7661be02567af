"""`kernelforge redteam`: put kernels whose verdicts are known through the judge, and print how many bad ones it killed and good ones it refused.

Exit code 4 when a bad kernel survived or a good one was refused, 6 when the budget ended before the corpus did.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from .. import _settings
from .._child import end_with_parent
from .._report import table
from ..errors import UsageFault
from . import options

_END_S = 10.0  # for a process that was told of a Ctrl-C


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("--target", choices=("host", "cuda"), default="host")
    p.add_argument("--device", default="cuda", help="with --target cuda: cuda or cuda:1")
    p.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="of names (`host/bad/*`), kinds (`partial_write`), calls (`add_fp32_odd`) or gates (`poison`)",
    )
    p.add_argument("--sample", type=options.positive, metavar="N", help="N files, drawn with the seed")
    p.add_argument("--seed", type=options.seed, default=0, help="of the sample, and of the inputs")
    p.add_argument(
        "--budget-s",
        type=options.positive_float,
        metavar="S",
        help="seconds after which no file is begun; a later call goes on",
    )
    p.add_argument(
        "--jobs",
        type=options.positive,
        default=1,
        metavar="N",
        help="with --target cuda: N processes side by side, which take turns where they time (1)",
    )
    p.add_argument("--part", default="1/1", help=argparse.SUPPRESS)  # of --jobs: K/N
    p.add_argument("--fresh", action="store_true", help="judge again what this judge has judged before")
    p.add_argument("--list", action="store_true", help="list the files, and judge none")


def run(args: argparse.Namespace) -> int:
    k, n = map(int, args.part.split("/"))
    if n > 1:
        end_with_parent()  # before anything that takes time
    from ..redteam.run import chosen, files, forget, redteam

    if args.list:
        found = chosen(files(args.target), args.only, args.sample, args.seed)
        rows = [[f["name"], f["kind"], f["call"], f.get("gate", "")] for f in found]
        options.emit(args, {"files": found}, "\n".join(table(["file", "kind", "call", "gate"], rows)))
        return 0
    place = _place(args)
    left, saved = args.budget_s, _settings.read().data / f"redteam-{args.target}-{args.seed}.json"
    if args.jobs > 1:
        began, commands = time.monotonic(), _parts(args)
        if args.fresh:  # once for all of them: what one of them leaves must not be taken for judged
            forget(saved, [f["name"] for f in chosen(files(args.target), args.only, args.sample, args.seed)])
            args.fresh = False
        _side_by_side(commands)
        left = None if left is None else max(left - (time.monotonic() - began), 1e-3)
    found_all = redteam(
        args.target,
        only=args.only,
        sample=args.sample,
        seed=args.seed,
        part=(k, n),
        budget_s=left,
        place=place,
        saved=saved,
        fresh=args.fresh,
        tell=None if args.json else _tell,
    )
    options.emit(args, found_all, _text(found_all))
    if found_all["survived"] or found_all["false_rejects"]:
        return 4
    return 6 if found_all["left"] else 0


def _parts(args: argparse.Namespace) -> list[list[str]]:
    """Return the commands of this program that judge the corpus in parts."""
    if args.target == "host":
        raise UsageFault(
            f"judge the corpus of the host with --jobs {args.jobs}: what is timed there would be timed beside other work",
            hint="leave --jobs out",
        )
    command = [sys.executable, "-m", "kernelforge", "redteam", "--json", "--target", args.target]
    command += [f"--device={args.device}", f"--only={args.only}", "--seed", str(args.seed)]
    command += ["--sample", str(args.sample)] if args.sample else []
    command += ["--budget-s", str(args.budget_s)] if args.budget_s else []
    return [[*command, "--part", f"{k}/{args.jobs}"] for k in range(1, args.jobs + 1)]


def _side_by_side(commands: Sequence[Sequence[str]]) -> None:
    """Run processes, which save what they find, until all have ended. What one has left, however it ended, is judged by the caller.

    They do not hear the Ctrl-C of a terminal: each is told of it once, here, and has some seconds to end what it has started.
    """
    parts = [subprocess.Popen(c, stdout=subprocess.DEVNULL, process_group=0) for c in commands]
    try:
        for part in parts:
            part.wait()
    except BaseException:
        for part in parts:
            part.send_signal(signal.SIGINT)
        until = time.monotonic() + _END_S
        for part in parts:
            with contextlib.suppress(subprocess.TimeoutExpired):
                part.wait(max(until - time.monotonic(), 0))
            part.kill()
            part.wait()
        raise


def _place(args: argparse.Namespace) -> Any:
    from .._place import HOST, Place

    if args.target == "host":
        return HOST
    from .._model import check_device

    check_device(args.device)
    import torch

    return Place(torch.device(args.device).index or 0)


def _tell(result: dict[str, Any]) -> None:
    if not result["right"]:
        what = "refused" if result["good"] else "SURVIVED"
        options.say(f"{what}: {result['name']}: {result['status']} {result['detail']}")
    elif not result["meant"]:
        options.say(
            f"killed elsewhere: {result['name']}: {result['status']} by `{result['killed_by']}`"
            f" (expected {' or '.join(result['dies'])} by `{result['gate']}`): {result['detail']}"
        )


def _text(found: dict[str, Any]) -> str:
    rows = [[kind, str(n["bad"]), str(n["killed"])] for kind, n in found["by_kind"].items()]
    lines = table(["kind", "bad", "killed"], rows, right=(1, 2)) if rows else []
    lines += ["", f"bad kernels killed: {found['killed']} of {found['bad']}"]
    lines += [f"  survived: {name}" for name in found["survived"]]
    lines.append(f"good kernels refused: {len(found['false_rejects'])} of {found['good']}")
    lines += [f"  refused: {name}" for name in found["false_rejects"]]
    if found["elsewhere"]:
        lines.append(f"killed, but not as meant: {', '.join(found['elsewhere'])}")
    if found["left"]:
        lines.append(f"not judged within the budget: {len(found['left'])}; the same call goes on")
    return "\n".join(lines)
