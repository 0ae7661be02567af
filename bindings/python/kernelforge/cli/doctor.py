"""`kernelforge doctor`: what works here. Exit code 0 if optimize works, 5 if not."""

from __future__ import annotations

import argparse

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


def run(args: argparse.Namespace) -> int:
    found = []
    for check in _doctor.checks():
        found.append(check)
        if not args.json:
            print(f"{check.name:<12} {_MARK[check.ok]:<8} {check.found}", flush=True)
            if check.hint:
                print(f"{'':<12} {'':<8} hint: {check.hint}", flush=True)
    result = _doctor.summary(found)
    lines = [""]
    for use, answer in result["uses"].items():
        works = "works" if answer["works"] else f"does not work here (see {', '.join(answer['missing'])})"
        lines.append(f"{use:<16} {_WORDS[use]}: {works}")
    if result["uses"]["optimize"]["works"]:
        lines.append("next: `kernelforge demo`, or `kernelforge optimize my_model.py:factory`")
    options.emit(args, result, "\n".join(lines))
    return 0 if result["uses"]["optimize"]["works"] else 5
