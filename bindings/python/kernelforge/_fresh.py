"""Serves the winners of a study in processes that have never seen them, before they are called winners.

A gain that was measured where the search ran may be that process's: its memory, its addresses, what its libraries have set up. So fresh processes serve all
winners of a study together, each with inputs of its own, and time every winner in pairs. They start side by side, since most of what they cost is the start,
and take turns, so that nothing runs beside what is timed. One that crashes or hangs names the plan that it was at; the others go on without it.

It owns these processes and what runs in them. It refuses to decide: raw times go back to the judge (go/forge/fresh.go).
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ._child import Child, end_with_parent, environment
from ._place import Place

NOTHING_SAID = 600.0  # seconds for a start, and for each plan, after which a process counts as hanging
_BLOCKS_AGAIN = 3  # times as many blocks for a plan that did not come out faster at first: it may be noise
Tell = Callable[[dict[str, Any]], None]


def serve(
    plans: list[dict[str, Any]],
    *,
    place: Place,
    processes: int,
    blocks: int,
    seed: int,
    seconds: float,
    silence: float = NOTHING_SAID,
) -> dict[str, Any]:
    """Serve plans together in fresh processes; return the result of the task `confirm_fresh`.

    Args:
        plans: [{"plan": JSON of the plan, "image": path of its code}].
        processes: how many; a plan that one of them crashed at is left out of the next.
        blocks: pairs of timings of a plan in each process.
        seconds: after these no further process takes its turn; the first always does. 0: no limit.
        silence: seconds without a line after which a process is killed.

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
        # A crash costs a turn, and takes a plan with it.
        waiting = [held.enter_context(_start(task, threads)) for _ in range(processes)]
        for turn in range(processes + len(plans)):
            left = [p["plan"]["id"] for p in plans if p["plan"]["id"] not in out]
            if done == processes or not left:
                break
            if turn > 0 and seconds > 0 and time.monotonic() - begin > seconds:
                why = f"no time was left after {done} of {processes} fresh processes"
                break
            child = waiting.pop(0) if waiting else held.enter_context(_start(task, threads))
            begun, ended = _turn(child, {"plans": left, "seed": seed + turn}, silence)
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
    return {"processes": done, "why": why, "results": results}


def _start(task: Path, threads: int) -> Child:
    return Child(["-m", "kernelforge._fresh", str(task)], environment(threads or None))


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


def _take_turn(task: dict[str, Any], turns: Iterator[str], tell: Tell) -> None:
    """Load what a process needs, wait for the turn, and serve."""
    import torch

    from . import _ext
    from ._place import place_of
    from .referee.confirm import NotLoaded, open_plan, serving

    place, extension = place_of(task["device"]), _ext.load()
    with torch.no_grad(), place.current():
        if place.cuda:
            place.info()
            torch.zeros(1, device=place.device)
            place.wait()
        turn = json.loads(next(turns))
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


def _main(argv: list[str]) -> int:
    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    end_with_parent()
    _take_turn(json.loads(Path(argv[0]).read_text()), sys.stdin, tell)
    return 0


if __name__ == "__main__":
    raise SystemExit(_main(sys.argv[1:]))
