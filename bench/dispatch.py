"""What a hook adds to a call: idle, a miss among 64 plans, a hit. Writes bench/results/dispatch-host.json, or dispatch-DEVICE.json.

    python bench/dispatch.py --budget-s 120
    python bench/dispatch.py --budget-s 240 --device cuda

Four processes share one core and take turns: `plain` has loaded the extension but registered no hook, so it is torch as it was; `idle` has the
hooks and nothing published; `miss64` and `hit` have 64 plans for each overload. A block times each of them, in random order, with
one ruler (`kernelforge._C.host_cost`: what a boxed call costs its thread, under inference_mode, one thread; on CUDA the device has nothing to do when a
sample begins, and its queue never fills). added_ns is the block's difference to `plain`.

Code placement differs between processes, so a round starts all four anew. added_ns is the median of the rounds' medians, and low and high are the
smallest and largest of them: with six rounds that interval holds the true median with 97 %. The row of a case is its worst overload. A run that was ended early is taken up where it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CASES = ("plain", "idle", "miss64", "hit")
PLANS = 64
RESULTS = Path(__file__).parent / "results"
ROUNDS, BLOCKS = 6, 40
# A sample is shorter than a time slice, so that the median of nine is undisturbed when other work shares the core.
SAMPLES, INNER = 9, 250

SOURCE = """
typedef long long i64;
union kf_arg { void* p; i64 i; double f; };
extern "C" float expf(float);
extern "C" float sqrtf(float);
extern "C" __attribute__((visibility("default"))) void kf_main(i64 begin, i64 end, const kf_arg* a) {
  %s
}
"""
CUDA_SOURCE = """
typedef long long i64;
extern "C" __global__ void kf_main(%s) {
  %s
}
"""
# The same kernels for a device: parameters and body. One block; the norm is one thread's, for its row is four elements.
CUDA_KERNELS = {
    "aten::sigmoid": (
        "const float* x, float* o, i64 n",
        "i64 i = threadIdx.x; if (i < n) o[i] = 1 / (1 + expf(-x[i]));",
    ),
    "aten::add.Tensor": (
        "const float* x, const float* y, float* o, i64 n",
        "i64 i = threadIdx.x; if (i < n) o[i] = x[i] + y[i];",
    ),
    "aten::native_layer_norm": (
        "const float* x, const float* w, const float* b, float* o, float* mean, float* rstd, i64 n",
        """if (threadIdx.x != 0) return;
  float s = 0, q = 0;
  for (i64 i = 0; i < n; ++i) s += x[i];
  for (i64 i = 0; i < n; ++i) q += (x[i] - s / n) * (x[i] - s / n);
  float r = 1 / sqrtf(q / n + 1e-5f);
  for (i64 i = 0; i < n; ++i) o[i] = (x[i] - s / n) * r * w[i] + b[i];
  *mean = s / n;
  *rstd = r;""",
    ),
}
# overload -> (arguments by the number of columns, kernel, its slots). The smallest tensors: a hit and eager then differ by host cost alone.
OVERLOADS: dict[str, tuple[str, str, list[str]]] = {
    "aten::sigmoid": (
        "[torch.ones(1, n)]",
        "float *x = (float*)a[0].p, *o = (float*)a[1].p; for (i64 i = begin; i < end; ++i) o[i] = 1 / (1 + expf(-x[i]));",
        ["self", "out0"],
    ),
    "aten::add.Tensor": (
        "[torch.ones(1, n), torch.ones(1, n)]",
        "float *x = (float*)a[0].p, *y = (float*)a[1].p, *o = (float*)a[2].p; for (i64 i = begin; i < end; ++i) o[i] = x[i] + y[i];",
        ["self", "other", "out0"],
    ),
    "aten::native_layer_norm": (
        "[torch.arange(float(n)).view(1, n), [n], torch.ones(n), torch.ones(n), 1e-5]",
        """float *x = (float*)a[0].p, *w = (float*)a[1].p, *b = (float*)a[2].p, *o = (float*)a[3].p; i64 n = a[6].i;
  for (i64 r = begin; r < end; ++r) {
    float s = 0, q = 0;
    for (i64 i = 0; i < n; ++i) s += x[r * n + i];
    for (i64 i = 0; i < n; ++i) q += (x[r * n + i] - s / n) * (x[r * n + i] - s / n);
    float rstd = 1 / sqrtf(q / n + 1e-5f);
    for (i64 i = 0; i < n; ++i) o[r * n + i] = (x[r * n + i] - s / n) * rstd * w[i] + b[i];
    ((float*)a[4].p)[r] = s / n;
    ((float*)a[5].p)[r] = rstd;
  }""",
        ["input", "weight", "bias", "out0", "out1", "out2"],
    ),
}
COLUMNS = 4  # of the timed call


# ---- one process of a case ----------------------------------------------------------------------------------------------------------


def compile_kernel(source: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        flags = "-x c++ -std=c++20 -O3 -march=native -fPIC -shared -nostartfiles -fno-exceptions -fno-rtti -fno-math-errno -fvisibility=hidden"
        links = "-Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now"
        subprocess.run(
            ["g++", *flags.split(), *links.split(), "-o", str(made), "-", "-lm"],
            input=source,
            text=True,
            check=True,
        )
        return made.read_bytes()


def compile_for_device(overload: str) -> bytes:
    """Return the cubin of an overload's kernel for device 0."""
    import torch

    sys.path.append(str(Path(__file__).resolve().parents[1] / "bindings/python/tests"))
    import nvrtc

    return nvrtc.compile(
        CUDA_SOURCE % CUDA_KERNELS[overload], nvrtc.arch_of(torch.cuda.get_device_capability(0))
    )


def plans_for(module: Any, overload: str, columns: list[int], device: str) -> list[Any]:
    """Return a plan of the hand-written kernel for each width."""
    text, kernel, slots = OVERLOADS[overload]
    cuda = device != "cpu"
    image = compile_for_device(overload) if cuda else compile_kernel(SOURCE % kernel)
    args: list[dict[str, str]] = [{"slot": s} for s in slots]
    if cuda:
        args.append({"int": "out0_numel", "type": "i64"})
        launch: dict[str, Any] = {"grid": ["1", "1", "1"], "block": ["128", "1", "1"], "smem": "0"}
    else:
        rows = "layer_norm" in overload
        args += [{"int": "normalized_shape_0"}] if rows else []
        launch = {"work": "1" if rows else "out0_numel", "grain": "1024"}
    plans = []
    for n in columns:
        module.capture_begin()
        module.call(overload, arguments(text, n, device))
        (record,) = module.capture_end()
        plan = {
            "id": f"p-{overload.split('::')[1]}-{n}",
            "call": record["call"],
            "align": [4] * len(slots),
            "deterministic": True,
            "exact": False,
            "spec": {
                "schema": 1,
                "constants": {},
                "workspaces": [],
                "kernels": [{"entry": "kf_main", **launch, "args": args}],
            },
        } | ({} if cuda else {"threads": 1})
        plans.append(module.plan_open(json.dumps(plan), image, device))
    return plans


def arguments(text: str, n: int, device: str = "cpu") -> list[Any]:
    import torch

    with torch.device(device):
        made: list[Any] = eval(text, {"torch": torch, "n": n})
    return made


def serve(case: str, device: str) -> None:
    """Be the process of a case: a line `overload` in, one sample in nanoseconds out."""
    import torch

    import kernelforge._C as module

    torch.set_num_threads(1)
    with torch.inference_mode():
        if case != "plain":
            module.install()
        if case in ("miss64", "hit"):
            columns = list(range(COLUMNS + 1, COLUMNS + 1 + PLANS))
            if case == "hit":
                columns[0] = COLUMNS
            module.publish(
                [p for overload in OVERLOADS for p in plans_for(module, overload, columns, device)]
            )
        sets = {overload: [arguments(text, COLUMNS, device)] for overload, (text, _, _) in OVERLOADS.items()}
        for overload, ((args,)) in sets.items():
            expected = torch.stack([out.sum() for out in module.call(overload, args)])
            with module.thread_off():
                torch.testing.assert_close(
                    expected, torch.stack([out.sum() for out in module.call(overload, args)])
                )
        print("ready", flush=True)
        module.stats(reset=True)
        for line in sys.stdin:
            samples = module.host_cost(line.strip(), sets[line.strip()], SAMPLES, INNER)
            print(statistics.median(samples), flush=True)
        print(json.dumps({name: op["hits"] for name, op in module.stats()["ops"].items()}), flush=True)


class Process:
    """A running case."""

    def __init__(self, case: str, device: str = "cpu") -> None:
        self.case = case
        command = [sys.executable, __file__, "--serve", case, "--device", device]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _line(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(
                f"time dispatch: the process of case `{self.case}` ended with code {self._child.wait()}"
            )
        return line

    def ready(self) -> None:
        while self._line().strip() != "ready":
            pass

    def sample(self, overload: str) -> float:
        assert self._child.stdin is not None
        self._child.stdin.write(overload + "\n")
        self._child.stdin.flush()
        return float(self._line())

    def end(self) -> dict[str, int]:
        """Close; return overload -> served calls."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        hits: dict[str, int] = json.loads(self._line())
        self._child.wait()
        return hits


# ---- the measurement ----------------------------------------------------------------------------------------------------------------


Round = dict[
    str, dict[str, float]
]  # overload -> case -> median nanoseconds: of `plain` itself, of the difference to it for the others


def one_round(seed: int, device: str = "cpu") -> Round:
    """Return the medians of processes started for this round."""
    order = random.Random(seed)
    processes = [Process(case, device) for case in CASES]
    for p in processes:
        p.ready()
    samples: dict[str, dict[str, list[float]]] = {o: {c: [] for c in CASES} for o in OVERLOADS}
    for block in range(BLOCKS + 1):
        for overload in OVERLOADS:
            for p in order.sample(processes, len(processes)):
                value = p.sample(overload)
                if block > 0:  # the first block warms caches
                    samples[overload][p.case].append(value)
    for p in processes:
        served = p.end()
        expected = (BLOCKS + 1) * (SAMPLES * INNER + 1) if p.case == "hit" else 0
        for overload in OVERLOADS:
            if served.get(overload, 0) != expected:
                raise RuntimeError(
                    f"time dispatch: case `{p.case}` served `{overload}` {served.get(overload, 0)} times (expected {expected})"
                )
    medians: Round = {}
    for overload, by_case in samples.items():
        plain = by_case["plain"]
        medians[overload] = {"plain": round(statistics.median(plain), 1)} | {
            case: round(statistics.median(c - p for c, p in zip(by_case[case], plain, strict=True)), 1)
            for case in CASES[1:]
        }
    return medians


def rows(rounds: list[Round]) -> list[dict[str, Any]]:
    """Return one row a case: its worst overload, and all of them under `overloads`."""
    out = []
    for case in CASES[1:]:
        found = []
        for overload in OVERLOADS:
            added = [r[overload][case] for r in rounds]
            eager = statistics.median(r[overload]["plain"] for r in rounds)
            found.append(
                {
                    "overload": overload,
                    "added_ns": round(statistics.median(added), 1),
                    "low": min(added),
                    "high": max(added),
                    "eager_ns": round(eager, 1),
                }
            )
        out.append({"case": case, **max(found, key=lambda f: f["high"]), "overloads": found})
    return out


def unfinished(path: Path, environment: dict[str, Any]) -> list[Round]:
    """Return the rounds of an earlier run on this machine that its budget or a signal ended; a finished file is measured anew."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    rounds: list[Round] = found.get("rounds", [])
    shape = (found.get("blocks"), found.get("samples"), found.get("inner"))
    fits = found.get("env") == environment and shape == (BLOCKS, SAMPLES, INNER)
    return rounds if fits and len(rounds) < ROUNDS else []


def result_path(device: str, environment: dict[str, Any]) -> Path:
    """Return the file of a device's results: `dispatch-host.json`, `dispatch-h200.json`."""
    if device == "cpu":
        return RESULTS / "dispatch-host.json"
    words = [w for w in environment["device"].lower().split() if w not in ("nvidia", "geforce")]
    return RESULTS / f"dispatch-{'-'.join(words)}.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--budget-s", type=float, default=600, help="stop starting rounds after this (default 600)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="result file (default: bench/results/dispatch-DEVICE.json)")
    parser.add_argument("--commit", help="what the result file says of the code; default: git's HEAD")
    parser.add_argument("--serve", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.device)
        return 0

    from kernelforge import _pins
    from kernelforge._place import place_of

    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print(
                "time dispatch on CUDA: torch sees no device\nhint: run it on a machine with a GPU",
                file=sys.stderr,
            )
            return 5
    environment = _pins.environment(place_of(given.device))
    out: Path = given.out or result_path(given.device, environment)
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})  # inherited: the processes take turns on one core
    start, rounds = time.monotonic(), unfinished(out, environment)
    while len(rounds) < ROUNDS and time.monotonic() - start < given.budget_s:
        rounds.append(one_round(len(rounds), given.device))
        result = {
            "schema": 1,
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": f"python bench/dispatch.py --budget-s {given.budget_s:g}"
            + (" --device cuda" if given.device == "cuda" else ""),
            "commit": given.commit or _head(),
            "env": environment,
            "budget_ns": {"idle": 100, "miss64": 300, "hit": 0},
            "rounds_wanted": ROUNDS,
            "blocks": BLOCKS,
            "samples": SAMPLES,
            "inner": INNER,
            "rows": rows(rounds),
            "rounds": rounds,
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
        for row in result["rows"]:
            print(
                f"round {len(rounds)}: {row['case']:7} {row['added_ns']:+8.1f} ns [{row['low']:+.1f}, {row['high']:+.1f}] on {row['overload']}, eager {row['eager_ns']:.0f} ns"
            )
    return 0


def _head() -> str:
    """Return the commit of this checkout, "" where git does not tell."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
        )
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
