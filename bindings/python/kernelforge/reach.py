"""Which hooked overloads a call reaches, by execution mode: `python -m kernelforge.reach [--device cuda] [--write docs/reach.md]`.

It owns the tables made from running one call for every hooked overload (`_reach_calls.py`), one table a kind of device. It refuses guesses: every cell
was observed through the hooks' own trace.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import platform
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _ext
from ._reach_calls import BEFORE_2_14, NOT_RUN, texts, variables

DEVICES = {"cpu": "CPU", "cuda": "CUDA"}
MODES = ("grad", "no_grad", "inference_mode", "aot_eager", "inductor")


@dataclass(frozen=True)
class Sample:
    """One call: `run(*arguments())`."""

    overload: str
    text: str
    names: tuple[str, ...]
    device: str = "cpu"

    @property
    def written(self) -> bool:
        """Whether the call writes an argument that the caller gave (in-place or out form)."""
        name = self.overload.split("::")[1]
        return name.partition(".")[0].endswith("_") or self._out_form

    @property
    def _out_form(self) -> bool:
        return "out" in self.overload.partition(".")[2] or "out=" in self.text

    def arguments(self, *, grad: bool = False) -> tuple[Any, ...]:
        """Return fresh arguments; `grad`: floating inputs are results of an operation that asks for a gradient."""
        values = variables(self.device)
        chosen = []
        for name in self.names:
            value = values[name]
            if (
                grad
                and not self._out_form
                and value.is_floating_point()
                and not name.startswith("o")
                and name not in ("rm", "rv")
            ):
                value = value.requires_grad_() * 1
            chosen.append(value)
        return tuple(chosen)

    def function(self) -> Callable[..., Any]:
        """Return the call as a function of its variables."""
        import torch
        import torch.nn.functional as F

        scope = {"torch": torch, "F": F}
        made: Callable[..., Any] = eval(
            f"lambda {', '.join(self.names)}: {self.text}", scope
        )  # the text is the table's
        return made


def samples(device: str = "cpu") -> dict[str, Sample]:
    """Return overload -> sample, for the overloads that this torch hooks on this kind of device (`cpu` or `cuda`); makes no tensor there."""
    known = variables("cpu")
    hooked = {r["overload"] for r in _ext.load().op_table()}
    found = {}
    for overload, text in texts(device).items():
        if overload in BEFORE_2_14 and overload not in hooked:
            continue
        used = sorted({n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} & known.keys())
        found[overload] = Sample(overload, text, tuple(used), device)
    return found


@contextmanager
def _mode(mode: str) -> Iterator[None]:
    import torch

    guard = {"grad": torch.enable_grad, "inference_mode": torch.inference_mode}.get(mode, torch.no_grad)
    with guard():
        yield


def arrivals(sample: Sample, mode: str) -> list[tuple[str, int]]:
    """Return what the sample's call reaches under a mode: (overload, depth) in order.

    Raises:
        Exception: whatever the call raises under this mode.
    """
    import torch

    module = _ext.load()
    torch._nnpack_available()  # sets NNPACK up: its own operator fails where nobody asked before, as every convolution does
    function = sample.function()
    with _mode(mode):
        if mode in ("aot_eager", "inductor"):
            torch._dynamo.reset()
            function = torch.compile(function, backend=mode, fullgraph=True)
            function(*sample.arguments())
        arguments = sample.arguments(grad=mode == "grad")
        module.trace_begin()
        try:
            function(*arguments)
        finally:
            traced = module.trace_end()
    return [(t["overload"], t["depth"]) for t in traced]


def cell(sample: Sample, mode: str) -> str:
    """Return one cell of the table: `yes`, what arrives instead, `nothing`, or the reason it cannot run."""
    try:
        arrived = arrivals(sample, mode)
    except Exception as e:
        return f"refused by torch ({type(e).__name__})"
    if any(overload == sample.overload for overload, _ in arrived):
        inside = all(depth > 0 for overload, depth in arrived if overload == sample.overload)
        return "yes, inside " + _names(arrived) if inside else "yes"
    return _names(arrived) or "nothing"


def _names(arrived: list[tuple[str, int]]) -> str:
    return ", ".join(dict.fromkeys(_name(o) for o, depth in arrived if depth == 0))


def row(device: str, overload: str, modes: tuple[str, ...]) -> list[str]:
    """Return the cells of one overload, one a mode."""
    sample = samples(device)[overload]
    return [cell(sample, mode) for mode in modes]


def _rows(device: str, overloads: list[str], modes: tuple[str, ...], jobs: int) -> list[list[str]]:
    if jobs == 1:
        return [row(device, overload, modes) for overload in overloads]
    found = _beside(device, overloads, modes, jobs)
    for overload in overloads:  # one that ends its process ends those of others too: each of these alone
        if overload not in found:
            alone = _beside(device, [overload], modes, 1)
            found[overload] = alone.get(overload, ["ends the process"] * len(modes))
    return [found[overload] for overload in overloads]


def _beside(device: str, overloads: list[str], modes: tuple[str, ...], jobs: int) -> dict[str, list[str]]:
    """Return the cells of overloads, observed by processes side by side; without those that were lost with a process."""
    found = {}
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {overload: pool.submit(row, device, overload, modes) for overload in overloads}
        for overload, cells in waiting.items():
            with suppress(BrokenProcessPool):
                found[overload] = cells.result()
    return found


def _observed(part: str, heading: str) -> dict[str, list[str]]:
    """Return the cells that a device's section has, by overload; none if it is of another torch or device, or has other modes.

    heading: what the section says of these.
    """
    lines = part.split("\n")
    if heading not in lines or not any(line.endswith(" | " + " | ".join(MODES) + " |") for line in lines):
        return {}
    found = {}
    for line in lines:
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2 + len(MODES) and "not observed" not in cells:
            found["aten::" + cells[0].strip("`")] = cells[2:]
    return found


def section(device: str = "cpu", modes: tuple[str, ...] = MODES, jobs: int = 1, old: str = "") -> str:
    """Return one device's part of the document as Markdown, observed here by `jobs` processes; but for rows of all modes that `old`, a section of the same
    torch and device, has already."""
    import torch

    hooked = [r["overload"] for r in _ext.load().op_table()]
    known = samples(device)
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    heading = f"torch {torch.__version__.split('+')[0]}, {where}."
    lines = [
        f"## {DEVICES[device]}",
        "",
        heading,
        "",
        "| overload | call | " + " | ".join(modes) + " |",
        "|---|---|" + "---|" * len(modes),
    ]
    reached = [o for o in hooked if o in known]
    rows = _observed(old, heading) if modes == MODES else {}
    new = [o for o in reached if o not in rows]
    rows |= zip(new, _rows(device, new, modes, jobs), strict=True)
    for overload in reached:
        lines.append(f"| {_name(overload)} | `{known[overload].text}` | " + " | ".join(rows[overload]) + " |")
    broken = [o for o in hooked if o in NOT_RUN and device == "cuda"]
    elsewhere = [o for o in hooked if o not in known and o not in broken and o not in BEFORE_2_14]
    ending = f"No kernel on this device: {', '.join(map(_name, elsewhere))}."
    if broken:
        ending += (
            f" Not run, since torch's own kernel of it breaks the process: {', '.join(map(_name, broken))}."
        )
    return "\n".join([*lines, "", ending, ""])


def _name(overload: str) -> str:
    return f"`{overload.removeprefix('aten::')}`"


def _completed(title: str, part: str) -> str:
    """Return a device's section with a row for every overload that was hooked since it was observed, behind the row of the one before."""
    device = next(d for d, t in DEVICES.items() if t == title)
    known, lines = samples(device), part.split("\n")
    ending = "".join(line for line in lines if line.startswith("No kernel on this device"))
    at = next((i for i, line in enumerate(lines) if line.startswith("|---")), -1)
    if at < 0 or not ending:
        return part
    for overload in (r["overload"] for r in _ext.load().op_table()):
        found = [i for i, line in enumerate(lines) if line.startswith(f"| {_name(overload)} |")]
        if found:
            at = found[0]
        elif overload in known and _name(overload) not in ending and overload not in BEFORE_2_14:
            at += 1
            cells = " | ".join("not observed" for _ in MODES)
            lines.insert(at, f"| {_name(overload)} | `{known[overload].text}` | {cells} |")
    return "\n".join(lines)


def _sections(text: str) -> dict[str, str]:
    """Return a document's sections by their titles."""
    return {part.split("\n", 1)[0]: "## " + part for part in text.split("## ")[1:]}


def document(old: str, device: str, new: str) -> str:
    """Return the document `old` (or "") with one device's section replaced by `new`; the other devices keep theirs, and say what they have not observed."""
    kept = {
        title: part if title == DEVICES[device] else _completed(title, part)
        for title, part in _sections(old).items()
    }
    kept[DEVICES[device]] = new
    head = [
        "# What reaches the hooks",
        "",
        "Made by `python -m kernelforge.reach --write docs/reach.md`, with `--device cuda` on a machine with a GPU; do not edit.",
        "",
        "For every hooked overload: the call that was made, and whether that overload reached its hook under each mode. `yes`: reached. "
        "Otherwise: the hooked overloads that arrived instead, or `nothing` (the work was fused, or runs as an operator that is not hooked). "
        "aot_eager and Inductor run under no_grad, after compilation. `not observed`: hooked since this device was there.",
        "",
        "`max_pool2d` and `group_norm` are CompositeImplicit, and `_fused_rms_norm` is on the CPU: they arrive only without autograd keys (inference_mode), "
        "elsewhere what they are made of does, for `F.max_pool2d` its leaf `max_pool2d_with_indices`. `group_norm` is hooked before torch 2.14 alone, and "
        "there for channels_last on CUDA alone. `_nnpack_spatial_convolution` is called after "
        "`torch._nnpack_available()`, which sets NNPACK up; torch refuses it before and on processors without AVX2.",
        "",
    ]
    parts = [kept[title].rstrip("\n") + "\n" for title in DEVICES.values() if title in kept]
    return "\n".join([*head, "\n".join(parts)])


def main(argv: list[str] | None = None) -> int:
    """Print one device's table, or write it into the document."""
    parser = argparse.ArgumentParser(
        prog="python -m kernelforge.reach", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--device", choices=sorted(DEVICES), default="cpu")
    parser.add_argument(
        "--write", type=Path, help="document whose section to replace (default: standard output)"
    )
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, default=list(MODES), help="modes to run (default: all)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that observe (default: 1)")
    parser.add_argument(
        "--new", action="store_true", help="only what the document does not have of this torch and device"
    )
    given = parser.parse_args(argv)
    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print(
                "observe what reaches the hooks on CUDA: torch sees no device\nhint: run it on a machine with a GPU",
                file=sys.stderr,
            )
            return 5
    old = given.write.read_text() if given.write is not None and given.write.exists() else ""
    part = _sections(old).get(DEVICES[given.device], "") if given.new else ""
    text = section(given.device, tuple(given.modes), given.jobs, part)
    if given.write is None:
        print(text)
    else:
        given.write.write_text(document(old, given.device, text))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
