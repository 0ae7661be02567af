"""The `kernelforge` command: one module a command, each with `add(parser)` and `run(args) -> exit code`.

It owns finding the command, the way errors are shown and the exit codes. Data goes to stdout, talk to stderr; `--json` prints one object.
Modules of commands import torch and the core when they run, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__, _interrupts
from ..errors import EXIT_CODES, Interrupted, KernelForgeError

COMMANDS = {
    "doctor": "say what works on this machine and what can be done about the rest",
    "demo": "optimize googlenet on this machine's CPU and show what was won",
    "profile": "show where a model spends its time and what each operator could gain",
    "optimize": "search kernels for a model and write a pack",
    "run": "run a script with packs applied, without changing it",
    "report": "show the result of a study",
    "explain": "show for each call of a model which plan serves it, or why eager runs",
    "ask": "tell what an author must know to write a kernel for an operator of a study",
    "submit": "have a kernel judged as a candidate of a study, and serve it if it is faster",
    "mcp": "let a coding agent drive a study, by the Model Context Protocol",
    "show": "show the studies, the runs of one, or one node with its source",
    "repro": "write a failing candidate as a folder that runs alone and fails again",
    "verify": "judge a pack again on this machine, in a fresh process",
    "redteam": "put kernels that are known to be wrong, and right ones, through the judge",
    "approve": "serve winners that were proposed with --review",
    "keygen": "make a pair of keys for signing packs",
    "sign": "sign a pack, so that `--trust` takes it",
    "cache": "show or clear what kernelforge keeps on disk",
}

_AGAIN = "nothing is left half done: run the same command again"
_EPILOG = "exit codes: " + "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items())


class _Parser(argparse.ArgumentParser):
    """Argparse with this project's manner of errors, and JSON errors under --json."""

    def error(self, message: str) -> Any:
        _show_error(
            f"{self.prog}: {message}", f"`{self.prog} --help` lists the options", 2, "--json" in sys.argv
        )
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = _Parser(
        prog="kernelforge",
        description="Makes a PyTorch model faster and never less right than eager.",
        epilog=_EPILOG,
    )
    root.add_argument("--version", action="version", version=f"kernelforge {__version__}")
    commands = root.add_subparsers(dest="command", metavar="command", required=True, parser_class=_Parser)
    for name, words in COMMANDS.items():
        sub = commands.add_parser(
            name, help=words, description=words[0].upper() + words[1:] + ".", epilog=_EPILOG
        )
        sub.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        sub.add_argument(
            "-v", "--verbose", action="store_true", help="say more on stderr; show the traceback of errors"
        )
        importlib.import_module(f"{__name__}.{name}").add(sub)
    return root


def command() -> NoReturn:
    """Run the command of this process and leave with its exit code."""
    code = main()
    if (
        code == Interrupted.exit_code
    ):  # said already: another Ctrl-C must not change how a process ends that takes a second to do so
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        args = parser().parse_args(argv)
    except KeyboardInterrupt:
        exec("")
        _show_error("interrupted", _AGAIN, Interrupted.exit_code, "--json" in sys.argv)
        return Interrupted.exit_code
    logging.basicConfig(
        format="kernelforge: %(message)s",
        level=logging.INFO if args.verbose else logging.WARNING,
        stream=sys.stderr,
    )
    try:
        return _carry_out(args)
    except KernelForgeError as e:
        if args.verbose:
            traceback.print_exc()
        _show_error(e.text, e.hint, e.exit_code, args.json)
        return e.exit_code
    except KeyboardInterrupt as e:
        exec(
            ""
        )  # Python ends by SIGINT itself, not with our code, if Ctrl-C came into an `exec` of text, whoever caught it: the last one counts
        text, _, hint = str(e).partition("\nhint: ")
        _show_error(
            text or f"{args.command}: interrupted",
            hint or _AGAIN,
            Interrupted.exit_code,
            args.json,
        )
        return Interrupted.exit_code
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as e:
        if args.verbose:
            traceback.print_exc()
        where = f" `{e.filename}`" if e.filename else ""
        _show_error(
            f"{args.command}: the system refused{where}: {e.strerror or e}",
            "is the folder writable, is the disk full?",
            5,
            args.json,
        )
        return 5
    except Exception as e:
        traceback.print_exc()
        _show_error(
            f"{args.command}: {type(e).__name__}: {e}",
            "this is a fault of kernelforge; please report it with the lines above",
            1,
            args.json,
        )
        return 1


def _carry_out(args: argparse.Namespace) -> int:
    command = importlib.import_module(f"{__name__}.{args.command}")
    if args.command == "run":  # a script has the handlers of signals that Python gives it
        return int(command.run(args))
    with _interrupts.handled(args.command, _AGAIN) as interrupts:
        try:
            code = int(command.run(args))
            sys.stdout.flush()
        except Exception:
            interrupts.raise_again()  # a library may make an error of its own out of either
            raise
    return code


def _show_error(text: str, hint: str, code: int, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps({"error": {"code": code, "meaning": EXIT_CODES[code], "text": text, "hint": hint}}),
            flush=True,
        )
    print(f"error: {text}" + (f"\nhint: {hint}" if hint else ""), file=sys.stderr, flush=True)
