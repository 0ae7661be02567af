"""Every operator against eager, Inductor, tuned libraries and a copy of the same bytes: bench/results/ops-h200.json, ops-host.json and their plots.

    python bench/ops.py --target cuda --budget-s 540            the goals' cases first; call it again to go on
    python bench/ops.py --target host --only 'softmax*'
    python bench/ops.py --target cuda --recheck                 served rows again, in a fresh process, from their packs: on another day
    python bench/ops.py --target cuda --plot                    the plot from the file; nothing is measured

A row is one call in several ways, interleaved in one process (ops_time.py): eager, torch.compile, torch.compile with max-autotune (without graphs; given
up after `--autotune-s`), a tuned library's kernel where one is installed, kernelforge (its own `optimize` on the call, served by the dispatcher; where
eager is kept the row counts 1.00) and a copy. A child process works through the rows; one that crashes or hangs is ended, the row says in which step, and
is measured once more without that step. The file is saved after each row. A row stays until `--fresh`, or `--stale` (those of other commits), or its
machine is another; one that lacks a way that is asked for is measured again. `--devices 0,1` shares the rows among several GPUs; `--lanes 3` measures
three rows side by side on each: one compiles while another searches, and what is timed is timed alone (kernelforge/_turns.py).
The exit code is 6 if rows are left.
"""

from __future__ import annotations

import argparse
import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumed
from ops_process import Child, Ended, share

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
HOME = ROOT / "build/bench-ops"
WAYS = ("inductor", "autotune", "tuned", "kernelforge")
UNFINISHED = 6
OVER_S = 5.0  # for lanes whose children were ended
START_S = 180.0  # a child that imports torch, on a machine that is busy
DEFAULTS = {  # seconds and candidates a case: a GPU judges candidates faster, and a processor compiles slower
    "cuda": {"candidates": 24, "search_s": 15.0, "compile_s": 60.0, "autotune_s": 40.0, "case_s": 240.0}
    | {"grace_s": 15.0},
    "host": {"candidates": 16, "search_s": 90.0, "compile_s": 120.0, "autotune_s": 240.0, "case_s": 900.0}
    | {"grace_s": 900.0},
}

Row = dict[str, Any]


class Broken(Exception):
    """The bench itself cannot work here; the words say why."""


class Bench:
    """One result file: what it has, and what is left to measure."""

    def __init__(self, args: argparse.Namespace) -> None:
        import models
        import ops_child
        import ops_goals
        import torch

        from kernelforge import _pins
        from kernelforge._place import place_of

        self.args, self.target = args, args.target
        self.until = time.monotonic() + args.budget_s
        self.cases = ops_child.cases_of(args.target, args.cases)
        self.order = ops_goals.order(args.target, list(self.cases))
        self.env = _pins.environment(place_of("cuda" if args.target == "cuda" else "cpu"))
        slug = models.slug(torch.cuda.get_device_name()) if args.target == "cuda" else "host"
        self.path: Path = args.out or RESULTS / f"ops-{slug}.json"
        self.home = args.home or HOME / slug
        self.commit = args.commit or models.commit()
        self.ways = [w for w in WAYS if w not in args.without]
        self.result = self._found()
        self._lock = threading.Lock()
        self._ended: dict[str, dict[str, str]] = {}  # by case: the steps that ended a child
        self._children: list[Child] = []
        self._took = list[float]()  # seconds of rows
        self._broken, self._over = "", False

    def _found(self) -> dict[str, Any]:
        """Return what an earlier run on this machine has left, or an empty result."""
        import models

        old = {} if self.args.fresh else models.load(self.path)
        same = ("device", "driver", "torch")
        if old and any(old["env"].get(k) != self.env[k] for k in same):
            if self.args.recheck:
                found = {k: old["env"].get(k) for k in same}
                raise Broken(f"recheck `{self.path}`: it is of {found} (this is {self.env['device']})")
            print(f"{self.path.name} is of another machine, driver or torch: it is begun anew", flush=True)
            old = {}
        return {
            "schema": 1,
            "made": resumed.now(),
            "command": resumed.said("ops", sys.argv[1:]),
            "commit": self.commit,
            "env": self.env,
            "copy_gbs": old.get("copy_gbs"),
            "summary": {},
            "rows": old.get("rows", []),
        }

    def left(self) -> list[str]:
        """Return the names of the cases to measure: those without a row first, then rows that lack a way, failed, or are stale."""
        rows = {r["case"]: r for r in self.result["rows"]}
        wanted = [n for n in self.order if resumed.fits(n, self.args.only)]
        missing = [n for n in wanted if n not in rows]

        def again(r: Row) -> bool:
            lacks = set(self.ways) - set(r["ways"])
            stale = self.args.stale and r["commit"] != self.commit
            failed = r["eager_us"] is None and r["commit"] != self.commit
            return bool(lacks or stale or failed)

        return [*missing, *(n for n in wanted if n in rows and again(rows[n]))]

    def packs(self) -> list[str]:
        """Return the served rows to measure again from packs that are here; those that were measured longest ago come first."""
        rows = [r for r in self._served() if (self.home / r["search"]["pack"]).is_dir()]
        rows = [r for r in rows if r.get("recheck_run") != self.result["made"]]
        return [r["case"] for r in sorted(rows, key=lambda r: r.get("recheck_made") or "")]

    def gone(self) -> int:
        """Return how many served rows have no pack here: it was made on a machine that is gone, and not brought along."""
        return sum(not (self.home / r["search"]["pack"]).is_dir() for r in self._served())

    def _served(self) -> list[Row]:
        rows = [r for r in self.result["rows"] if r["served"] and r["search"].get("pack")]
        return [r for r in rows if resumed.fits(r["case"], self.args.only)]

    # ---- the work ----------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        a = self.args
        return {
            "target": self.target,
            "home": str(Path(self.home).absolute()),
            "cases": str(a.cases.absolute()) if a.cases else None,
            "roof": not self.result["copy_gbs"],
            **{k: getattr(a, k) for k in ("candidates", "search_s", "compile_s", "autotune_s")},
            **{k: getattr(a, k) for k in ("processes", "blocks", "times_s", "tier")},
        }

    def run(self) -> int:
        """Work until nothing is left or the budget is spent; return how many cases are left."""
        todo = queue.Queue[str]()
        names = self.packs() if self.args.recheck else self.left()
        for name in names:
            todo.put(name)
        devices: list[str | None] = list(self.args.devices.split(",")) if self.args.devices else [None]
        every = [(d, n) for n in range(self.args.lanes) for d in devices]
        lanes = [
            threading.Thread(target=self._lane, args=(todo, *at, share(i, len(every))), daemon=True)
            for i, at in enumerate(every)
        ]
        for lane in lanes:
            lane.start()
        try:
            for lane in lanes:
                lane.join(max(self._end() - time.monotonic(), 0.0))
        finally:  # after Ctrl-C too: what is measured is saved, and the children end; a row that they had under way is left
            self._over = True
            for child in list(self._children):
                child.end()
        for lane in lanes:
            lane.join(OVER_S)
        self.save()
        if self._broken:
            raise Broken(self._broken)
        return len(self.packs() if self.args.recheck else self.left())

    def _end(self) -> float:
        return float(self.until + self.args.grace_s)

    def _goes_on(self) -> bool:
        """Return whether another row is begun: one that takes as long as most has to end in time."""
        now = time.monotonic()
        return now < self.until and now + statistics.median(self._took or [0.0]) < self._end()

    def _lane(self, todo: queue.Queue[str], device: str | None, lane: int, cores: set[int]) -> None:
        """Work through cases in one child after the other, until none is left or the time is over. A lane has its own part of the processors: what one
        compiles is not in the way of what another times."""
        child: Child | None = None
        work: Callable[[Child, str], None] = self._recheck if self.args.recheck else self._measure
        while self._goes_on() and not self._broken:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                break
            done, began = False, time.monotonic()
            while not done:
                try:
                    child = child or self._child(device, lane, cores)
                except Ended as e:
                    if self._over:
                        return
                    self._broken = f"start a process that measures: {e.doing}: {e.why}"
                    return
                try:
                    work(child, name)
                    done = True
                except Ended as e:  # once more without the step, if it can be left out
                    child = None
                    if self._over:
                        return
                    done = self._stopped(name, e)
            self._took.append(time.monotonic() - began)
        if child:
            child.end()

    def _child(self, device: str | None, lane: int, cores: set[int]) -> Child:
        settings = self.settings()
        child = Child(settings, device, lane, cores)
        self._children.append(child)
        if settings["roof"]:
            rate = child.wait(START_S, "copy_gbs", "the copy's rate")
            with self._lock:
                self.result["copy_gbs"] = self.result["copy_gbs"] or rate
        child.wait(START_S, "ready", "start")
        return child

    def _measure(self, child: Child, name: str) -> None:
        ended = self._ended.get(name, {})
        left_out = [w for w in WAYS if w not in self.ways]
        without = [*left_out, *(f"{w}={why}" for w, why in ended.items())]
        found = child.ask(self.args.case_s, case=name, without=without)
        if "failed" in found:
            self.keep(self._empty(name, found["failed"]))
        else:
            self.keep(self._about(name) | found)

    def _about(self, name: str) -> Row:
        case, rate = self.cases[name], self.result["copy_gbs"]
        size = case.bytes()
        return {
            "case": name,
            **{k: getattr(case, k) for k in ("op", "dtype", "layout", "group", "native", "vendor")},
            "bytes": size,
            "roof_us": round(size / rate / 1e3, 4) if rate else None,
            "paper_ratio": case.paper_ratio,
            "recheck_ratio": None,
            "ways": self.ways,
            "made": resumed.now(),
            "commit": self.commit,
        }

    def _empty(self, name: str, reason: str) -> Row:
        """Return the row of a case that could not be measured."""
        numbers = ("copy_us", "eager_us", "inductor_us", "autotune_us", "tuned_us", "kernelforge_us")
        before = {f"{w}_us": why for w, why in self._ended.get(name, {}).items()}
        return (
            self._about(name)
            | dict.fromkeys((*numbers, "ratio", "low", "high", "warm_ratio"))
            | {"served": False, "against": {}, "search": {}, "tuned": None}
            | {"why": {**before, "eager_us": reason}}
        )

    def _stopped(self, name: str, e: Ended) -> bool:
        """Note what ended a child; return whether the case is given up, its row saying why."""
        ended = self._ended.setdefault(name, {})
        print(f"{name}: {e.doing}: {e.why}", flush=True)
        if self.args.recheck:
            with self._lock:
                row = next(r for r in self.result["rows"] if r["case"] == name)
                row |= {"recheck_ratio": None, "recheck_why": f"{e.doing}: {e.why}"}
                row |= {"recheck_made": resumed.now(), "recheck_run": self.result["made"]}
                self.save()
            return True
        if e.doing in WAYS and e.doing not in ended:
            ended[e.doing] = e.why
            return False
        self.keep(self._empty(name, f"{e.doing}: {e.why}"))
        return True

    def _recheck(self, child: Child, name: str) -> None:
        row = next(r for r in self.result["rows"] if r["case"] == name)
        found = child.ask(self.args.case_s, recheck=name, pack=row["search"]["pack"])
        with self._lock:
            row |= found | {"recheck_made": resumed.now(), "recheck_run": self.result["made"]}
            self.save()
        print(f"{name}: again {found['recheck_ratio'] or found.get('recheck_why')}", flush=True)

    # ---- the file ---------------------------------------------------------------------------------------------------

    def keep(self, row: Row) -> None:
        import ops_goals

        with self._lock:
            rows = {r["case"]: r for r in self.result["rows"]} | {row["case"]: row}
            known = {n: i for i, n in enumerate(self.order)}
            self.result["rows"] = sorted(rows.values(), key=lambda r: known.get(r["case"], len(known)))
            self.save()
        print(ops_goals.line(row), flush=True)

    def save(self) -> None:
        import models
        import ops_goals

        self.result["summary"] = ops_goals.summary(self.target, self.result["rows"], len(self.cases))
        models.save(self.path, self.result)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--target", choices=("cuda", "host"), required=True)
    add("--budget-s", type=float, default=540.0, help="begin no row after this")
    add("--grace-s", type=float, help="end rows that are under way so long after it; they are left")
    add("--out", type=Path, help="result file (default: bench/results/ops-DEVICE.json)")
    add("--home", type=Path, help="folder of packs, stores and caches (default: build/bench-ops/DEVICE)")
    add("--only", default="*", metavar="PATTERN", help="cases whose name holds this, or fits it with * and ?")
    add("--without", nargs="*", choices=WAYS, default=[], help="ways that are left out")
    add("--devices", default="", help="GPUs that share the rows, as 0,1 (default: the current one)")
    add(
        "--lanes",
        type=int,
        default=1,
        help="rows side by side on each GPU, which take turns where they time (1)",
    )
    add("--cases", type=Path, help="a file whose cases() returns other cases (ops_cases.Case)")
    add("--candidates", type=int, help="an operator, at most")
    add("--search-s", type=float, help="seconds of the search of a case")
    add("--compile-s", type=float, help="seconds that torch.compile may take")
    add("--autotune-s", type=float, help="seconds that max-autotune may take")
    add("--case-s", type=float, help="seconds after which a case that does not answer is ended")
    add("--times-s", type=float, default=20.0, help="seconds of the blocks of a case, after the sixth")
    add("--blocks", type=int, default=15, help="blocks, each of every way")
    add("--processes", type=int, default=0, help="fresh processes in which a winner must be faster too")
    add(
        "--tier",
        type=int,
        help="of the sandbox, asked for by number: compute-sanitizer, which takes seconds for large tensors, opens it and is left out",
    )
    add("--recheck", action="store_true", help="measure served rows again, from their packs")
    add("--fresh", action="store_true", help="forget the rows that there are")
    add("--stale", action="store_true", help="measure rows of other commits again")
    add("--plot", action="store_true", help="only draw the plot beside the result file")
    add("--list", action="store_true", help="only show which cases are left, in order")
    add("--commit", help="what the file says of the code; default: git's HEAD")
    args = parser.parse_args(words)
    for key, value in DEFAULTS[args.target].items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    if args.lanes < 1 or (args.lanes > 1 and args.target == "host"):
        parser.error(f"--lanes {args.lanes} (expected 1 or more; on the host 1: nobody takes turns there)")
    return args


def main(words: list[str] | None = None) -> int:
    sys.path.insert(0, str(Path(__file__).parent))
    import ops_plot

    args = arguments(words)
    if args.target == "cuda" and not args.plot:
        import torch

        if not torch.cuda.is_available():
            print("time operators on CUDA: torch sees no device\nhint: --target host", file=sys.stderr)
            return 5
    if args.plot and args.out:
        print(ops_plot.write(args.out))
        return 0
    try:
        return work(args)
    except Broken as e:
        print(f"error: {e}", file=sys.stderr)
        return 5
    except KeyboardInterrupt:
        print("\nended; rows that were measured are saved, and the same command goes on", file=sys.stderr)
        return 130


def work(args: argparse.Namespace) -> int:
    """Measure, or only list or draw, as asked; return the exit code."""
    import ops_goals
    import ops_plot

    bench = Bench(args)
    if args.recheck and (gone := bench.gone()):
        print(
            f"packs of {gone} served rows are not in `{bench.home}`: these rows stay as they are", flush=True
        )
    if args.list:
        print("\n".join(bench.packs() if args.recheck else bench.left()))
        return 0
    left = 0 if args.plot else bench.run()
    print(ops_goals.goals_told(bench.result))
    if bench.path.exists():
        print(f"results: {bench.path}, {ops_plot.write(bench.path)}; {left} left")
    return UNFINISHED if left else 0


if __name__ == "__main__":
    sys.exit(main())
