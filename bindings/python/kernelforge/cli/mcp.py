"""`kernelforge mcp STUDY`: the study's tools for coding agents, over stdio or over HTTP on this machine.

On stdio stdout carries the protocol and nothing else: whatever else is printed in this process goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from typing import TYPE_CHECKING

from ..errors import KernelForgeError, LockedFault, UsageFault, of_the_user
from . import options

if TYPE_CHECKING:
    from .._interrupts import Interrupts

_POLL_MS = 150
_BUSY_SECONDS = 2.0  # between tries of a study that another process runs: it judges meanwhile


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("study", help="name of a study that `kernelforge optimize` began")
    p.add_argument(
        "--http", metavar="ADDRESS", help="serve at 127.0.0.1:PORT in place of stdio; port 0: a free one"
    )
    p.add_argument(
        "--token-env",
        metavar="NAME",
        help="with --http: variable that holds the token; default: one is made and printed once",
    )
    p.add_argument(
        "--details",
        action="store_true",
        help="tell agents the elements, values and seeds at which a candidate failed; default: which check and on what kind of input",
    )
    p.add_argument("--model", help="where the study's model is now, if not in this folder: `file.py:factory`")
    options.add_store(p)


def run(args: argparse.Namespace) -> int:
    from .. import _interrupts

    with _interrupts.handled(f"mcp `{args.study}`", "what was judged is saved") as interrupts:
        interrupts.patient = True  # the first Ctrl-C ends the service, the second what it still does
        service = _Service(args, _start(args))
        try:
            service.serve(interrupts)
        finally:
            service.stop()
    return 0


def _start(args: argparse.Namespace) -> int:
    """Start the server and return its number."""
    from .. import _core, _settings

    about = {
        "store": str(_settings.store_path(args.store)),
        "study": args.study,
        "details": args.details,
    }
    if args.token_env and not args.http:
        raise UsageFault("serve with --token-env: only HTTP has a token", hint="add --http 127.0.0.1:PORT")
    if args.http:
        token, told = _token(args.token_env)
        with of_the_user():
            server = _core.call("mcp.start", **about, http={"address": args.http, "token": token})
        options.say(f"serving `{args.study}` at {server['url']}" + (f"\ntoken: {token}" if told else ""))
    else:
        ways = {"in": os.dup(0), "out": os.dup(1)}
        sys.stdout.flush()
        os.dup2(2, 1)  # what a model's file prints must not break the protocol
        server = _core.call("mcp.start", **about, stdio=ways)
    return int(server["server"])


def _token(variable: str | None) -> tuple[str, bool]:
    """Return the token, and whether it was made here and must be told."""
    if variable is None:
        return secrets.token_urlsafe(32), True
    token = os.environ.get(variable, "")
    if not token:
        raise UsageFault(f"take the token from the variable `{variable}`: it is not set, or empty")
    return token, False


class _Service:
    """Judges what agents submit, as long as the server serves."""

    def __init__(self, args: argparse.Namespace, server: int) -> None:
        from .. import _study

        self.args, self.server = args, server
        self.study: _study.Study | None = None
        self.hopeless = False  # the model cannot be made: agents were told
        self.next_try = 0.0

    def serve(self, interrupts: Interrupts) -> None:
        """Judge until the server or the user ends; then confirm and serve what was found."""
        from .. import _core

        while not interrupts.count:
            state = _core.call("mcp.poll", server=self.server, timeout_ms=_POLL_MS)
            if not state["serving"]:
                break
            if state["waiting"] and self.study is None and not self.hopeless:
                self._open()
            if self.study is not None:
                self._judge()
        _core.call("mcp.stop", server=self.server)
        if self.study is not None:
            options.say("confirming what was found; Ctrl-C stops at once")
            self._conclude()

    def stop(self) -> None:
        if self.study is not None:
            self.study.stop()

    def _open(self) -> None:
        """Make the study's model again, unless another process runs the study: that one judges."""
        import torch

        from .. import _study

        if time.monotonic() < self.next_try:
            return
        self.next_try = time.monotonic() + _BUSY_SECONDS
        if _study.running(self.args.study, self.args.store):
            return
        try:
            with torch.no_grad():
                self.study = _study.Study.again(self.args.study, self.args.store, model=self.args.model)
        except LockedFault:
            return  # another process was faster
        except KernelForgeError as e:
            self._trouble(e)

    def _judge(self) -> None:
        import torch

        assert self.study is not None
        try:
            with torch.no_grad():
                self.study.pump()
        except KernelForgeError as e:
            broken, self.study = self.study, None
            broken.stop()
            self._trouble(e)

    def _trouble(self, e: KernelForgeError) -> None:
        from .. import _core

        self.hopeless = True
        options.say(f"error: {e.text}" + (f"\nhint: {e.hint}" if e.hint else ""))
        text = f"nothing can be judged here: {e.text}" + (f" (hint: {e.hint})" if e.hint else "")
        _core.call("mcp.trouble", server=self.server, text=text)

    def _conclude(self) -> None:
        import torch

        assert self.study is not None
        with torch.no_grad():
            report = self.study.close()
        if report is not None:
            options.say(str(report))
