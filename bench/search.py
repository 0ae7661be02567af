"""What the search costs: candidates a minute, compile time, the loss after a crash, memory. Writes bench/results/search-host.json, or search-h200.json.

    python bench/search.py --budget-s 300
    python bench/search.py --budget-s 300 --device cuda

One study in a store and a compile cache of its own, so that nothing is taken from earlier runs: googlenet (float32, batch 4) on the host, resnet50
(float16, channels_last, batch 256) on CUDA; random weights. On CUDA the study goes on where nothing is left to gain (`min_gain` 0), also past the roof,
since its first candidates are near it and a handful of them would say nothing. `referee` tells what its tasks took, `spent` what the steps of the study
did (those of the referee among them) and `parts` where their seconds went (go/judge/account.go). Candidates a minute are the distinct binaries that
reached a verdict, over the wall time of the search without what the user's process does to confirm (`seconds`: `confirm`; what the judge does of it is
in), and once more over the whole wall time (`whole_s`).
The worker's memory is what it holds beside the shared tensors (anonymous pages, sampled every 20 ms; on CUDA the driver's own are among them); the
core's is what its Go runtime has taken from the system. The file is written after the search and again after the respawns; a run that finds the
search of its commit in it goes on with the respawns.

The loss after a crash needs `go`, or bench/respawn built before (`go build -o build/respawn ./bench/respawn`), as on a machine without Go.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
RESPAWN = ROOT / "build/respawn"
RESPAWN_S, MEMORY_MB = 2.0, 150.0  # budgets: docs/architecture.md
COMPILE_P50_S = {"host": 1.5, "cuda": 0.06}
CANDIDATES_PER_MIN = {"host": None, "cuda": 120.0}
SEARCH_PART = 0.7  # of the budget


class WorkerMemory(threading.Thread):
    """Samples the anonymous memory of this process's worker children, MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.stopped = 0.0, threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.02):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                except OSError:
                    continue  # it has ended meanwhile
                fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
                ours = fields.get("PPid", "").strip() == str(os.getpid())
                if ours and fields.get("Name", "").strip().startswith("kernelforge-wor"):
                    self.most = max(self.most, _anonymous_kb(status, fields) / 1024)


def _anonymous_kb(status: Path, fields: dict[str, str]) -> int:
    """Return a process's anonymous memory; where the kernel does not tell it apart, what is resident and not shared."""
    if "RssAnon" in fields:
        return int(fields["RssAnon"].split()[0])
    try:
        _, resident, shared, *_ = (status.parent / "statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") // 1024


def on_host() -> tuple[Any, Any]:
    import torch
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.googlenet(weights=None, init_weights=False, aux_logits=False).eval()
    return model, (torch.randn(4, 3, 224, 224),)


def on_cuda() -> tuple[Any, Any]:
    from kernelforge._model import Wanted, make

    made = make(Wanted("resnet50", batch=256, dtype="float16", channels_last=True, device="cuda"))
    return made.model, made.inputs


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {"host": on_host, "cuda": on_cuda}


def timed_tasks() -> dict[str, list[float]]:
    """Have the referee time its tasks; return the seconds by kind, which fill as it works."""
    import time

    from kernelforge.referee.tasks import Referee

    taken: dict[str, list[float]] = {}
    execute = Referee.execute

    def timed(referee: Referee, task: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            return execute(referee, task)
        finally:
            taken.setdefault(task["kind"], []).append(time.perf_counter() - began)

    Referee.execute = timed  # type: ignore[method-assign]
    return taken


class Spent:
    """What one step of the study took: how often, seconds, and how many of them went where."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.parts: dict[str, float] = {}

    def add(self, data: dict[str, Any]) -> None:
        self.seconds.append(data["seconds"])
        for part, seconds in data.get("parts", {}).items():
            self.parts[part] = self.parts.get(part, 0.0) + seconds

    def row(self) -> dict[str, Any]:
        parts = dict(sorted(self.parts.items(), key=lambda p: -p[1]))
        return {
            "times": len(self.seconds),
            "total_s": sum(self.seconds),
            **({"parts_s": parts} if parts else {}),
        }


def spent_by_step() -> dict[str, Spent]:
    """Have the study's own account kept: return what its steps took ("prepare", "judge", "confirm", "model"), which fills as it runs."""
    from kernelforge import _core

    spent: dict[str, Spent] = {}
    call = _core.call

    def watched(operation: str, **request: Any) -> dict[str, Any]:
        answer = call(operation, **request)
        for event in answer["events"] if operation == "study.poll" else ():
            if event["kind"] == "spend" and "seconds" in event["data"]:
                spent.setdefault(event["data"]["what"], Spent()).add(event["data"])
        return answer

    _core.call = watched
    return spent


def search(target: str, budget_s: float, home: Path) -> dict[str, Any]:
    """Run the study; return its figures."""
    os.environ["KERNELFORGE_HOME"] = str(home)
    import torch

    import kernelforge
    from kernelforge import _core, _job

    model, inputs = MODELS[target]()
    taken, spent = timed_tasks(), spent_by_step()
    if target == "cuda":
        settings = _job.Job._settings
        _job.Job._settings = lambda job: settings(job) | {"min_gain": 0.0}  # type: ignore[method-assign]
    sampler = WorkerMemory()
    sampler.start()
    with torch.no_grad():
        kernelforge.optimize(
            model,
            inputs,
            study="bench",
            max_seconds=budget_s,
            candidates=40,
            progress=False,
        )
    sampler.stopped.set()
    report = kernelforge.report(model).to_dict()
    study = _core.call("store.study", store=report["store"], study="bench")
    compile_ms, judged_s, statuses, twins = [], [], dict[str, int](), 0
    for run in study["runs"]:
        for node in run["nodes"]:
            if node["parent"] < 0:
                continue  # the root is eager
            verdict = _core.call(
                "store.node", store=report["store"], study="bench", run=run["card"], node=node["node"]
            )["verdict"]
            if verdict.get("twin"):
                twins += 1  # its binary has been judged: only distinct ones count
                continue
            statuses[verdict["status"]] = statuses.get(verdict["status"], 0) + 1
            judged_s.append(verdict["seconds"])
            if verdict.get("compile_ms"):
                compile_ms.append(verdict["compile_ms"])
    seconds = report["seconds"]["search"]
    whole = seconds + report["seconds"]["confirm"]
    return {
        "env": report["env"],
        "target": target,
        "candidates": len(judged_s),
        "twins": twins,
        "verdicts": statuses,
        "search_s": seconds,
        "candidates_per_min": len(judged_s) / seconds * 60,
        "whole_s": whole,
        "candidates_per_min_whole": len(judged_s) / whole * 60,
        "judge_s_p50": quantile(judged_s, 0.5),
        "seconds": report["seconds"],
        "referee": {
            kind: {"tasks": len(s), "total_s": sum(s), "p50_s": quantile(s, 0.5), "p95_s": quantile(s, 0.95)}
            for kind, s in sorted(taken.items())
        },
        "spent": {what: s.row() for what, s in sorted(spent.items())},
        "compiles": len(compile_ms),
        "compile_ms_p50": quantile(compile_ms, 0.5),
        "compile_ms_p95": quantile(compile_ms, 0.95),
        **({} if compile_ms else {"compile_why": "no candidate was compiled: the budget was too short"}),
        "core_mb": _core.call("version")["memory_bytes"] / 2**20,
        "worker_mb": sampler.most,
    }


def quantile(values: list[float], part: float) -> float | None:
    """Return the value below which this part of the values lies, null of none.

    Example:
        >>> quantile([1.0, 3.0], 0.5), quantile([2.0], 0.95), quantile([], 0.5)
        (2.0, 2.0, None)
    """
    if part == 0.5 and values:
        return statistics.median(values)
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=20)[round(20 * part) - 1]


def respawn(target: str) -> dict[str, Any]:
    """Return the loss after a crash and after a hang, seconds: the worst of ten each. Null with a reason where it cannot be measured."""
    from kernelforge import _core, _nvrtc

    program = [str(RESPAWN)] if RESPAWN.exists() else ["go", "run", "./bench/respawn"]
    if shutil.which(program[0]) is None:
        return {"respawn_s": None, "respawn_why": "neither `go` nor build/respawn is here"}
    where = ["-device", "0"] if target == "cuda" else []
    if target == "cuda":
        where += ["-nvrtc", str(_nvrtc.find() or "")]
    command = [*program, *where, str(_core.WORKER), str(_core.RUNTIME), "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        return {"respawn_s": None, "respawn_why": done.stderr.strip()[-300:]}
    taken = json.loads(done.stdout)
    return {
        "respawn_s": max(max(v) for v in taken.values()),
        "respawn_crash_s": taken["crash_s"],
        "respawn_hang_s": taken["hang_s"],
    }


def head(args: argparse.Namespace) -> dict[str, Any]:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    device = " --device cuda" if args.device == "cuda" else ""
    return {
        "schema": 1,
        "made": resumed.now(),
        "command": f"python bench/search.py --budget-s {args.budget_s:g}{device}",
        "commit": args.commit or done.stdout.strip() or None,
    }


def unfinished(path: Path, commit: str | None) -> dict[str, Any] | None:
    """Return the figures of an earlier run of this commit that lack the respawns."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if found.get("commit") == commit and "respawn_s" not in found else None


def ablation(path: Path) -> dict[str, Any]:
    """Return what bench/ablation.py has put into an earlier file: it comes from tables, not from this run."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in found.items() if k.startswith("ablation")}


def tell(figures: dict[str, Any], target: str) -> None:
    for name, got, most in (
        (
            "compile p50, s",
            None if figures["compile_ms_p50"] is None else figures["compile_ms_p50"] / 1e3,
            COMPILE_P50_S[target],
        ),
        ("crash or hang to the next candidate, s", figures["respawn_s"], RESPAWN_S),
        ("core, MB", figures["core_mb"], MEMORY_MB),
        ("worker, MB", figures["worker_mb"], MEMORY_MB),
    ):
        words = (
            "not measured"
            if got is None
            else f"{got:8.2f}  (budget {most:g}){'' if got <= most else '  over'}"
        )
        print(f"{name:40} {words}")
    least = CANDIDATES_PER_MIN[target]
    budget = "" if least is None else f"  (budget {least:g} or more)"
    print(f"{'candidates a minute':40} {figures['candidates_per_min']:8.1f}{budget}")
    if (over_all := figures.get("candidates_per_min_whole")) is not None:
        print(f"{'... over the whole wall time':40} {over_all:8.1f}{budget}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--commit", help="what the result file says of the code; default: git's HEAD")
    parser.add_argument(
        "--out", type=Path, help="default: bench/results/search-host.json or search-DEVICE.json"
    )
    args = parser.parse_args()
    logging.basicConfig(
        format="%(relativeCreated)8.0f ms  %(message)s", level=logging.INFO, stream=sys.stderr
    )
    target = "cuda" if args.device == "cuda" else "host"
    path: Path = args.out or RESULTS / f"search-{_slug(target)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = unfinished(path, head(args)["commit"])
    if figures is None:
        with tempfile.TemporaryDirectory(prefix="kernelforge-bench-") as folder:
            figures = head(args) | search(target, args.budget_s * SEARCH_PART, Path(folder)) | ablation(path)
        path.write_text(json.dumps(figures, indent=1) + "\n")
    figures |= respawn(target)
    path.write_text(json.dumps(figures, indent=1) + "\n")
    tell(figures, target)
    print(f"results: {path}")
    return 0


def _slug(target: str) -> str:
    if target == "host":
        return target
    import torch
    from models import slug

    return slug(torch.cuda.get_device_name())


if __name__ == "__main__":
    sys.exit(main())
