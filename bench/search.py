"""What the search costs: candidates a minute, compile time, the loss after a crash, memory. Writes bench/results/search-host.json.

    python bench/search.py --budget-s 300

One study of googlenet (random weights) in a store and a compile cache of its own, so that nothing is taken from earlier runs. Candidates a minute
are those that reached a verdict, over the wall time of the search. The worker's memory is what it holds beside the shared tensors (anonymous
pages, sampled every 20 ms); the core's is what its Go runtime has taken from the system.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench/results/search-host.json"
COMPILE_P50_S, RESPAWN_S, MEMORY_MB = 1.5, 2.0, 150.0  # budgets: docs/architecture.md


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
                if fields["Name"].strip() == "kernelforge-wor" and f"\t{os.getpid()}" == fields["PPid"]:
                    self.most = max(self.most, int(fields.get("RssAnon", "0 kB").split()[0]) / 1024)


def search(budget_s: float, home: Path) -> dict[str, Any]:
    """Run the study; return its figures."""
    os.environ["KERNELFORGE_HOME"] = str(home)
    import torch
    import torchvision

    import kernelforge
    from kernelforge import _core

    torch.manual_seed(0)
    model = torchvision.models.googlenet(weights=None, init_weights=False, aux_logits=False).eval()
    sampler = WorkerMemory()
    sampler.start()
    with torch.no_grad():
        kernelforge.optimize(
            model,
            (torch.randn(4, 3, 224, 224),),
            study="bench",
            max_seconds=budget_s,
            candidates=40,
            progress=False,
        )
    sampler.stopped.set()
    report = kernelforge.report(model).to_dict()
    study = _core.call("store.study", store=report["store"], study="bench")
    compile_ms, verdicts = [], 0
    for run in study["runs"]:
        for node in run["nodes"]:
            if node["parent"] < 0:
                continue  # the root is eager
            verdict = _core.call(
                "store.node", store=report["store"], study="bench", run=run["card"], node=node["node"]
            )["verdict"]
            verdicts += 1
            if verdict.get("compile_ms"):
                compile_ms.append(verdict["compile_ms"])
    seconds = report["seconds"]["search"]
    quantiles = statistics.quantiles(compile_ms, n=20)
    return {
        "env": report["env"],
        "candidates": verdicts,
        "search_s": seconds,
        "candidates_per_min": verdicts / seconds * 60,
        "compiles": len(compile_ms),
        "compile_ms_p50": statistics.median(compile_ms),
        "compile_ms_p95": quantiles[18],
        "core_mb": _core.call("version")["memory_bytes"] / 2**20,
        "worker_mb": sampler.most,
    }


def respawn() -> dict[str, Any]:
    """Return the loss after a crash and after a hang, seconds: the worst of ten each."""
    library = ROOT / "bindings/python/kernelforge/lib"
    command = [
        "go",
        "run",
        "./bench/respawn",
        str(library / "kernelforge-worker"),
        str(library / "libkfruntime.so"),
        "10",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    taken = json.loads(done.stdout)
    return {
        "respawn_s": max(max(v) for v in taken.values()),
        "respawn_crash_s": taken["crash_s"],
        "respawn_hang_s": taken["hang_s"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--output", type=Path, default=RESULT)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelforge-bench-") as folder:
        figures = search(args.budget_s * 0.7, Path(folder))
    figures |= respawn()
    head = {
        "schema": 1,
        "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": f"python bench/search.py --budget-s {args.budget_s:g}",
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip(),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(head | figures, indent=1) + "\n")
    for name, got, most in (
        ("compile p50, s", figures["compile_ms_p50"] / 1e3, COMPILE_P50_S),
        ("crash or hang to the next candidate, s", figures["respawn_s"], RESPAWN_S),
        ("core, MB", figures["core_mb"], MEMORY_MB),
        ("worker, MB", figures["worker_mb"], MEMORY_MB),
    ):
        print(f"{name:40} {got:8.2f}  (budget {most:g}){'' if got <= most else '  over'}")
    print(f"{'candidates a minute':40} {figures['candidates_per_min']:8.1f}")
    print(f"results: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
