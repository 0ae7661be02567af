"""The process that measures cases of bench/ops.py, one after the other: a request a line on its input, an answer a line on its output.

    {"case": NAME, "without": ["autotune"]}   -> {"doing": "inductor"} ... {"row": {...}}
    {"recheck": NAME, "pack": FOLDER}         -> {"row": {"recheck_ratio": ...}}

What a call, a compiler or a candidate does to this process happens here, and bench/ops.py starts another one. It owns the measurement of one case.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ops_cases
import ops_time
import ops_tuned
import torch
from ops_cases import Case
from ops_time import Late, Way, boxed

import kernelforge
from kernelforge import _ext, _roof, _studies, _turns
from kernelforge._child import end_with_parent
from kernelforge._place import Place, place_of
from kernelforge.errors import KernelForgeError

# The one that may run out of time goes first: what it leaves is reset, and the other would be compiled again.
MODES = {"autotune": "max-autotune-no-cudagraphs", "inductor": None}
REFUSED = 3  # of an operator, whose words are kept
VENDOR = "eager is kept: linear, convolution and attention stay with their libraries"

Row = dict[str, Any]


def plain(name: str) -> str:
    """Return a case's name as a folder's.

    Example:
        >>> plain("in model: add, relu float16")
        'in-model-add-relu-float16'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:300]


def cases_of(target: str, file: str | None) -> dict[str, Case]:
    """Return the cases of a target, or those that `cases()` of a file returns."""
    if not file:
        return ops_cases.find(target)
    spec = importlib.util.spec_from_file_location("own_cases", file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {c.name: c for c in module.cases()}


class Measure:
    """One case in every way that is asked for.

    settings: of bench/ops.py: home, candidates, search_s, compile_s, autotune_s, processes, blocks.
    say: tells the parent what is being done.
    """

    def __init__(self, place: Place, settings: dict[str, Any], say: Callable[..., None]) -> None:
        self.place, self.settings, self.say = place, settings, say
        self.home = Path(settings["home"])

    def row(self, case: Case, without: list[str]) -> Row:
        """Return the fields of a row that are measured."""
        began, why = time.monotonic(), {w: f"not measured: {reason}" for w, reason in _pairs(without)}
        self.say(doing="eager")
        torch._dynamo.reset()
        with torch.inference_mode():
            with _turns.beside(self.place):
                first = case.make(self.place.device)
                outputs = case.call(*(x.clone() for x in first))
                allocated = _size(outputs)
                del outputs
                self.place.wait()
            calls: dict[str, Callable[..., Any]] = {"eager": case.call}
            for word, mode in MODES.items():
                if word not in why:
                    self.say(doing=word)
                    made, reason = self._compiled(case, first, word, mode)
                    calls |= {word: made} if made else {}
                    why |= {word: reason} if reason else {}
            tuned = ""
            if "tuned" not in why:
                self.say(doing="tuned")
                with _turns.beside(self.place):
                    made, tuned, reason = ops_tuned.find(case.tuned, case.call, first, case.dtype)
                calls |= {"tuned": made} if made else {}
                why |= {"tuned": reason} if reason else {}
            search = self._searched(case, first, why)
            self.say(doing="times")
            with _turns.alone(self.place):
                timed = self._timed(case, first, calls, search["served"], allocated, why)
        kernelforge.restore()
        return {
            **timed,
            "tuned": tuned or None,
            "search": search,
            "seconds": round(time.monotonic() - began, 1),
            "why": {f"{w}_us": reason for w, reason in why.items()},
        }

    def _compiled(
        self, case: Case, first: list[torch.Tensor], word: str, mode: str | None
    ) -> tuple[Any, str]:
        """Return (the compiled call, "") or (None, why not)."""
        limit = self.settings["autotune_s" if word == "autotune" else "compile_s"]
        made = torch.compile(case.call, mode=mode, dynamic=False)
        try:
            with boxed(limit), kernelforge.disabled():
                made(*(x.clone() for x in first))
                self.place.wait()
        except Late:
            torch._dynamo.reset()
            return None, f"not compiled within {limit:g} s"
        except Exception as e:
            return None, first_line(e)
        return made, ""

    def _searched(self, case: Case, first: list[torch.Tensor], why: dict[str, str]) -> dict[str, Any]:
        """Have kernelforge serve the call; return what the search came to."""
        if case.vendor:
            return {"served": False, "why": VENDOR}
        if "kernelforge" in why:
            return {"served": False, "why": why["kernelforge"]}
        self.say(doing="kernelforge")
        name = plain(case.name)
        pack = self.home / "packs" / name
        try:
            kernelforge.optimize(
                case.call,
                tuple(first),
                study=name,
                candidates=self.settings["candidates"],
                max_seconds=self.settings["search_s"],
                processes=self.settings["processes"],
                tier=self.settings["tier"],
                fresh=True,
                progress=False,
                out=pack,
                name=case.name,
            )
        except KernelForgeError as e:
            return {"served": False, "why": first_line(e)}
        data = kernelforge.report().to_dict()
        with _turns.beside(self.place):
            hits = hits_of(case, first)
        reasons = [r["why"] for r in data["rows"] if r.get("why")]
        return {
            "served": hits > 0,
            "why": data["withdrawn"] or "; ".join(dict.fromkeys(reasons)) or None,
            "hits": hits,
            "pack": f"packs/{name}" if data["pack"] and hits else None,
            "operators": [
                {k: r.get(k) for k in ("op", "ratio", "low", "served", "verdicts")} for r in data["rows"]
            ],
            **_tried(name),
            "seconds": data["seconds"],
            "asked": {k: self.settings[k] for k in ("candidates", "search_s", "processes", "tier")},
        }

    def _timed(
        self,
        case: Case,
        first: list[torch.Tensor],
        calls: dict[str, Callable[..., Any]],
        served: bool,
        allocated: int,
        why: dict[str, str],
    ) -> Row:
        size = case.bytes()
        ways = [Way(name, _placed(case, call)) for name, call in calls.items()]
        if served:
            ways.append(Way("kernelforge", _placed(case, case.call), plans=True))
        if case.between:
            before, after = case.between
            ways.append(Way("around", lambda x, *_: after(before(x))))
            if 2 * _size(first[0]) >= 0.98 * size:
                ways.append(Way("copy", _placed(case, lambda x, *_: x.clone())))
            else:
                why["copy"] = "between neighbours a copy moves the first input alone"
        else:
            # A copy by the driver, and one by a kernel: the faster of them is the copy.
            ways.append(Way("copy", torch.clone, copies=True))
            ways.append(Way("copy_kernel", torch.bitwise_not, copies=True))
        found: Row = {"bytes": size}
        for heat in ("cold", "warm"):
            sets = ops_time.argument_sets(first, self.place, once=heat == "warm")
            copies = ops_time.copies_of(size, len(sets), self.place)
            bench = ops_time.Bench(self.place, ways, sets, copies, allocated)
            blocks = self.settings["blocks"] if heat == "cold" else max(6, self.settings["blocks"] // 2)
            times = bench.blocks(blocks, most_s=self.settings["times_s"])
            why |= bench.why
            if case.between and "around" in times:
                times = ops_time.without_neighbours(times, why)
            if heat == "cold" and ("eager" not in times or "around" in bench.why):
                raise RuntimeError(why.get("eager") or why["around"])
            if heat == "cold":
                found |= self._columns(times, bench, sets, served)
                if self.place.cuda:
                    found |= self._dispatch(case, sets, served)
            else:
                if found["served"]:
                    found |= ops_time.warm_of(times, why)
                found["warm_us"] = {w: round(statistics.median(v), 4) for w, v in times.items()}
            del bench, sets, copies
            self.place.trim()
        return found

    def _columns(
        self, times: dict[str, list[float]], bench: ops_time.Bench, sets: list[Any], served: bool
    ) -> Row:
        """Return the columns of cold times."""
        if "copy_kernel" in times:
            kernel = times.pop("copy_kernel")
            if "copy" not in times or statistics.median(kernel) < statistics.median(times["copy"]):
                times["copy"] = kernel
        served = served and "kernelforge" in times
        ours = times.get("kernelforge", times["eager"])
        us = {w: round(statistics.median(v), 4) for w, v in times.items()}
        others = {w: v for w, v in times.items() if w not in ("eager", "kernelforge")}
        kept = {"ratio": 1.0, "low": 1.0, "high": 1.0}
        gain = ops_time.compared(times["eager"], ours) if served else kept
        size = sum(x.numel() * x.element_size() for x in sets[0])
        return {
            "copy_us": us.get("copy"),
            "eager_us": us["eager"],
            **{f"{w}_us": us.get(w) for w in ("inductor", "autotune", "tuned")},
            "kernelforge_us": us.get("kernelforge", us["eager"]),
            **gain,
            "served": served,
            "warm_ratio": 1.0,
            "warm_low": 1.0,
            "against": {w: ops_time.compared(v, ours) for w, v in others.items()},
            "samples": len(ours),
            "calls_a_sample": bench.inner,
            "sets": len(sets),
            "pool_bytes": size * len(sets),
        }

    def _dispatch(self, case: Case, sets: list[Any], served: bool) -> Row:
        """Return what a call costs its caller, plans off and on."""
        with _ext.switch(_ext.load()) as switch:
            switch(False)
            eager = ops_time.dispatched(case.call, sets, self.place)
            switch(served)
            ours = ops_time.dispatched(case.call, sets, self.place) if served else eager
        return {"dispatch_eager_us": round(eager, 3), "dispatch_kernelforge_us": round(ours, 3)}

    def again(self, case: Case, pack: str) -> Row:
        """Return the ratio of a pack that this process has loaded and not made."""
        self.say(doing="recheck")
        try:
            with _turns.beside(self.place):
                plans = kernelforge.apply(self.home / pack)
        except KernelForgeError as e:
            return {"recheck_ratio": None, "recheck_why": first_line(e)}
        with torch.inference_mode(), _turns.alone(self.place):
            first = case.make(self.place.device)
            allocated = _size(case.call(*(x.clone() for x in first)))
            if not hits_of(case, first):
                kernelforge.restore()
                why = f"none of {len(plans)} plans served the call"
                return {"recheck_ratio": None, "recheck_why": why}
            call = _placed(case, case.call)
            ways = [Way("eager", call), Way("kernelforge", call, plans=True)]
            if case.between:
                before, after = case.between
                ways.append(Way("around", lambda x, *_: after(before(x))))
            sets = ops_time.argument_sets(first, self.place)
            times = ops_time.Bench(self.place, ways, sets, sets, allocated).blocks(
                self.settings["blocks"], seed=2, most_s=self.settings["times_s"]
            )
        kernelforge.restore()
        if case.between:
            why = dict[str, str]()
            times = ops_time.without_neighbours(times, why)
            if why:
                return {"recheck_ratio": None, "recheck_why": "; ".join(why.values())}
        eager, ours = times["eager"], times["kernelforge"]
        found = ops_time.compared(eager, ours)
        return {
            **{f"recheck_{k}": v for k, v in found.items()},
            "recheck_eager_us": round(statistics.median(eager), 4),
            "recheck_kernelforge_us": round(statistics.median(ours), 4),
        }


def _tried(study: str) -> dict[str, Any]:
    """Return the best candidate of each family of each operator that was searched, the best first, and the words of the first ones that were refused."""
    best, refused = [], []
    for run in _studies.load(study, None)["runs"]:
        judged = sorted(run["nodes"][1:], key=lambda n: n["cost"])  # node 0 is eager
        good = {n["family"]: n for n in reversed(judged) if n["status"] == "ok"}  # the best is the last
        for n in sorted(good.values(), key=lambda n: n["cost"]):
            best.append({"op": run["overload"], **{k: n[k] for k in ("family", "params", "cost")}})
        for n in [n for n in judged if n["status"] != "ok"][:REFUSED]:
            words = _studies.node(study, run["card"], n["node"], None)["verdict"]["detail"][:300]
            refused.append({k: n[k] for k in ("family", "params", "status")} | {"detail": words})
    return {"best": best, "refused": refused}


def hits_of(case: Case, first: list[torch.Tensor]) -> int:
    """Return how many operators of the call, where it stands, are served now."""
    inputs = [x.clone() for x in first]
    kernelforge.stats(reset=True)
    _placed(case, case.call)(*inputs)
    return sum(op["hits"] for op in kernelforge.stats()["ops"].values())


def _pairs(without: list[str]) -> list[tuple[str, str]]:
    """Return (way, reason) of words as `autotune` or `autotune=it crashed`."""
    split = [w.partition("=") for w in without]
    return [(w, reason or "left out") for w, _, reason in split]


def _size(outputs: Any) -> int:
    return sum(x.numel() * x.element_size() for x in (outputs if isinstance(outputs, tuple) else (outputs,)))


def _placed(case: Case, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call between its neighbours, if it has some."""
    if not case.between:
        return call
    before, after = case.between
    return lambda x, *rest: after(call(before(x), *rest))


def measured(measure: Measure, case: Case, without: list[str], say: Callable[..., None]) -> dict[str, Any]:
    """Return {"row"}, or {"failed"} of a case that raises; after an error of the device this process is of no more use, and it ends."""
    try:
        return {"row": measure.row(case, without)}
    except Exception as e:
        if "CUDA error" in str(e) or "illegal" in str(e):
            raise
        kernelforge.restore()
        return {"row": {"failed": first_line(e)}}


def main() -> int:
    end_with_parent()  # else a search would go on, in turns with the next run's
    settings = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # compilers print
    faulthandler.register(signal.SIGUSR1)  # the parent asks so where a call hangs

    def say(**words: Any) -> None:
        print(json.dumps(words), file=answers, flush=True)

    place = place_of("cuda" if settings["target"] == "cuda" else "cpu")
    _ext.load()
    cases = cases_of(settings["target"], settings["cases"])
    if place.cuda:
        ops_time.take_turns(place)
    with _ext.measuring():
        if settings["roof"]:
            with _turns.alone(place):
                roof = _roof.measure(place)
            say(copy_gbs=roof.rates[-1])
        if place.cuda:
            ops_time.warm_up(place)
        say(ready=True)
        for line in sys.stdin:
            asked = json.loads(line)
            measure = Measure(place, settings, say)
            if "recheck" in asked:
                say(row=measure.again(cases[asked["recheck"]], asked["pack"]))
            else:
                say(**measured(measure, cases[asked["case"]], asked["without"], say))
    return 0


if __name__ == "__main__":
    sys.exit(main())
