"""Serves the winners of a study in processes that have never seen them, before they are called winners.

A gain that was measured where the search ran may be that process's: its memory, its addresses, what its libraries have set up. So fresh processes serve all
winners of a study together, each with inputs of its own, and time every winner in pairs. They start side by side, since most of what they cost is the start,
and take turns, so that nothing runs beside what is timed. One that crashes or hangs names the plan that it was at; the others go on without it. A study
whose winners are likely has them started ahead (`Ahead`): they wait without a device, and are told what to serve when that is known.

It owns these processes and what runs in them. It refuses to decide: raw times go back to the judge (go/forge/fresh.go).
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ._child import Child, end_with_parent, environment
from ._place import Place

log = logging.getLogger("kernelforge")

NOTHING_SAID = 600.0  # seconds for a start, and for each plan, after which a process counts as hanging
_BLOCKS_AGAIN = 3  # times as many blocks for a plan that did not come out faster at first: it may be noise
Tell = Callable[[dict[str, Any]], None]


class Ahead:
    """Processes that are started before there is anything to serve: they have torch and the extension, nothing of a search and nothing of a device, and wait.

    Use it as a context manager: leaving it ends them.

    Args:
        processes: how many.
        threads: that torch may use there; 0 leaves it to torch.
    """

    def __init__(self, processes: int, threads: int) -> None:
        self._processes, self._threads = processes, threads
        self._held = contextlib.ExitStack()
        self._waiting: list[Child] = []
        self._begun = self._settled = False

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *exc: object) -> None:
        self._waiting = []
        self._held.close()

    def begin(self) -> None:
        """Start them, once, beside what is not timed: `settled` says when they have."""
        if not self._begun:
            self._begun = True
            self._waiting = [self._held.enter_context(_start(self._threads)) for _ in range(self._processes)]

    @contextlib.contextmanager
    def settled(self, silence: float = NOTHING_SAID) -> Iterator[None]:
        """Have them start beside the first such block, and wait for them at its end: a start takes CPUs, and nothing may be timed beside it."""
        self.begin()
        try:
            yield
        except Exception:
            self._settle(silence)
            raise
        # Not after Ctrl-C or SIGTERM, which nothing may keep waiting: they end with their owner.
        self._settle(silence)

    def _settle(self, silence: float) -> None:
        if not self._settled:
            self._settled = True
            # One that does not come so far is none: what hindered it may be over when it is needed, or is told then.
            self._waiting = [c for c in self._waiting if _says(c, "torch", silence)]

    def take(self, processes: int, threads: int) -> list[Child]:
        """Give so many of those that wait, where they are what would be started now. threads: that torch may use."""
        fit = [c for c in self._waiting if threads == self._threads and not c.ended()]
        self._waiting = []
        return fit[:processes]


def serve(
    plans: list[dict[str, Any]],
    *,
    place: Place,
    processes: int,
    blocks: int,
    seed: int,
    seconds: float,
    silence: float = NOTHING_SAID,
    ahead: Ahead | None = None,
) -> dict[str, Any]:
    """Serve plans together in fresh processes; return the result of the task `confirm_fresh`.

    Args:
        plans: [{"plan": JSON of the plan, "image": path of its code}].
        processes: how many; a plan that one of them crashed at is left out of the next.
        blocks: pairs of timings of a plan in each process.
        seconds: after these no further process takes its turn; the first always does. 0: no limit.
        silence: seconds without a line after which a process is killed.
        ahead: processes that wait already.

    Returns:
        {"processes", "why", "results": [{"plan", "process", "status", "detail", "eager_ns", "ours_ns"}]}. processes: how many served to their end;
        why: what kept it from all of them, or "". A plan has one result for each process that came to it; a status other than `ok` has no times.
    """
    begin = time.monotonic()
    results: list[dict[str, Any]] = []
    out: set[str] = set()  # plans that a process ended at
    done, why = 0, ""
    with tempfile.TemporaryDirectory(prefix="kernelforge-fresh-") as scratch, contextlib.ExitStack() as held:
        task = Path(scratch) / "task.json"
        task.write_text(json.dumps({"plans": plans, "device": place.device, "blocks": blocks}))
        threads = max((int(p["plan"].get("threads", 0)) for p in plans), default=0)

        def started(children: Iterable[Child]) -> list[Child]:
            """Return them when none of them starts any more: nothing may run beside what the first one times."""
            all_ = [held.enter_context(child) for child in children]
            for child in all_:
                child.tell({"task": str(task)})
            for child in all_:
                _says(child, "device", silence)
            return all_

        # A crash costs a turn, and takes a plan with it.
        already = [] if ahead is None else ahead.take(processes, threads)
        waiting = started([*already, *(_start(threads) for _ in range(processes - len(already)))])
        clock = [time.monotonic()]
        for turn in range(processes + len(plans)):
            left = [p["plan"]["id"] for p in plans if p["plan"]["id"] not in out]
            if done == processes or not left:
                break
            if turn > 0 and seconds > 0 and time.monotonic() - begin > seconds:
                why = f"no time was left after {done} of {processes} fresh processes"
                break
            child = waiting.pop(0) if waiting else started([_start(threads)])[0]
            begun, ended = _turn(child, {"plans": left, "seed": seed + turn}, silence)
            clock.append(time.monotonic())
            results += [{"process": turn, **r} for r in ended["results"]]
            if ended["done"]:
                done += 1
            elif begun is None:
                why = f"a fresh process could not start: {_last_words(child, silence)}"
                break
            else:
                out.add(begun)
                status = "timeout" if child.code() is None else "crash"
                detail = f"a fresh process ended at it: {_last_words(child, silence)}"
                results = [r for r in results if (r["plan"], r["process"]) != (begun, turn)]
                results.append(_result(begun, status, detail) | {"process": turn})
    log.info(
        "served %d plans in fresh processes: start %.1f s (%d waited), turns %s s",
        len(plans),
        clock[0] - begin,
        len(already),
        ", ".join(f"{b - a:.1f}" for a, b in pairwise(clock)),
    )
    return {"processes": done, "why": why, "results": results}


def _start(threads: int) -> Child:
    return Child(["-m", "kernelforge._fresh"], environment(threads or None))


def _says(child: Child, what: str, silence: float) -> bool:
    """Wait until a process has what it needs next; return False if it has ended instead."""
    while (line := child.line(silence)) is not None:
        if line.get("has") == what:
            return True
    return False


def _turn(child: Child, turn: dict[str, Any], silence: float) -> tuple[str | None, dict[str, Any]]:
    """Let a process take its turn; return the plan that it began last, and its results."""
    begun: str | None = None
    found: dict[str, Any] = {"results": [], "done": False}
    child.tell(turn)
    while (line := child.line(silence)) is not None:
        begun = line.get("begin", begun)
        if "plan" in line:
            found["results"].append(line)
        found["done"] = found["done"] or "done" in line
    return begun, found


def _last_words(child: Child, silence: float) -> str:
    code = child.code()
    if code is None:
        return f"it said nothing for {silence:g} s and was killed"
    words = child.talk().strip().splitlines()
    return f"code {code}" + (f", {words[-1]}" if words else "")


def _result(plan: str, status: str, detail: str = "") -> dict[str, Any]:
    return {"plan": plan, "status": status, "detail": detail, "eager_ns": [], "ours_ns": []}


# ---- in the fresh process ---------------------------------------------------------------------------------------


def _take_turn(told: Iterator[str], tell: Tell) -> None:
    """Load what a process needs, wait for what is to be served and open its device, wait for the turn, and serve."""
    import torch

    from . import _ext, _pack, _verify  # noqa: F401  (all that a turn imports)
    from ._place import place_of
    from .referee.confirm import NotLoaded, open_plan, serving

    extension = _ext.load()
    tell({"has": "torch"})
    task = json.loads(Path(json.loads(next(told))["task"]).read_text())
    place = place_of(task["device"])
    with torch.no_grad(), place.current():
        if place.cuda:
            place.info()
            torch.zeros(1, device=place.device)
            rehearse(task["plans"], place)
        tell({"has": "device"})
        turn = json.loads(next(told))
        opened: list[tuple[dict[str, Any], Any]] = []
        with serving(extension, []):
            for item in task["plans"]:
                plan = item["plan"]
                if plan["id"] not in turn["plans"]:
                    continue
                tell({"begin": plan["id"]})
                try:
                    opened.append((plan, open_plan(extension, plan, item["image"], place)))
                except NotLoaded as e:
                    tell(_result(plan["id"], e.status, str(e)))
                    continue
                extension.publish([p for _, p in opened])  # launches it once: a crash there is this plan's
            for plan, loaded in opened:
                tell({"begin": plan["id"]})
                tell(_served(extension, loaded, plan, task["blocks"], turn["seed"], place))
    tell({"done": True})


def rehearse(plans: list[dict[str, Any]], place: Place) -> None:
    """Take the smallest call of each operator through what a turn does with eager: at the first call of a kind libraries load code and take memory, and so
    all processes do that at once, before any of them times."""
    from ._verify import variant_of
    from .referee.bounds import compare
    from .referee.cases import bounds_of
    from .referee.ruler import calls_of

    smallest: dict[str, tuple[float, Any]] = {}
    for item in plans:
        call = item["plan"]["call"]
        size = sum(math.prod(o["sizes"]) for o in call["outputs"])
        if size < smallest.get(call["overload"], (math.inf,))[0]:
            smallest[call["overload"]] = (size, call)

    def once(call: dict[str, Any]) -> None:
        variant = variant_of(call, 0, place)
        arguments = variant.arguments(variant.draw("fresh", 0))
        bounds = bounds_of(variant.overload, arguments, "fresh")
        compare(bounds, [b.best for b in bounds])
        calls_of(place, variant.overload.name, [arguments]).eager(1, 1)

    for _, call in smallest.values():
        with contextlib.suppress(Exception):  # what fails here fails in the turn again, and is told there
            once(call)
    place.wait()
    place.trim()  # it waits for its turn with next to nothing of the device


def _served(
    extension: Any, loaded: Any, plan: dict[str, Any], blocks: int, seed: int, place: Place
) -> dict[str, Any]:
    """Time one plan while all are served, and compare what it makes with eager's."""
    from ._verify import variant_of
    from .referee.confirm import compared, timed

    variant = variant_of(plan["call"], seed, place)
    pairs = timed(variant, blocks, seed)
    if statistics.median(e / o for e, o in zip(pairs["eager_ns"], pairs["ours_ns"], strict=True)) <= 1:
        more = timed(variant, _BLOCKS_AGAIN * blocks, seed + 1)
        pairs = {k: pairs[k] + more[k] for k in pairs}
    finding = compared(extension, variant, loaded, inputs=1)
    if finding.status != "ok":
        return _result(plan["id"], finding.status, finding.detail)
    return _result(plan["id"], "ok") | {k: pairs[k] for k in ("eager_ns", "ours_ns")}


def _main() -> None:
    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    end_with_parent()
    _take_turn(sys.stdin, tell)
    os._exit(
        0
    )  # the next one waits for this one's end, and what Python and torch would tidy up goes with the process


if __name__ == "__main__":
    _main()
