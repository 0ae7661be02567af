"""Whole models on a GPU, from profile to served pack: bench/results/resnet50-h200.json, vae-h200.json and so on.

    python bench/models.py resnet50 --budget-s 540
    python bench/models.py vae --budget-s 540

`resnet50` is torchvision's, float16, channels_last, batch 256; `vae` the decoder of Stable Diffusion 3.5 (bench/vae.py), bfloat16, 1024 px; `sd35`, `gemma4`,
`gemma4_token` and `qwen35` are bench/published.py's, which need diffusers or transformers. Two stages, each saved when it ends (and what the search has so far, every 20 s, in a `.partial.json` beside the result): `optimize` searches, confirms, times the whole model with plans on and off, plain and under CUDA graphs, and holds its outputs
against eager's; `served` loads the pack in a fresh process, as a user would, and measures there again. Ended early or killed, the same command goes on:
the search from its store, the stages from the result file. `--fresh` begins again. When the budget is over, what still runs is interrupted as by Ctrl-C,
and the exit code is 6. Store and packs are in `--home`: on another machine the command goes on if that folder was brought along. Several models may run
beside one another, each with a home of its own: what is timed is timed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
HOME = ROOT / "build/bench-models"  # store, packs and compiled candidates
REST_S = 110.0  # of the budget: profile, fresh processes, the whole model and its float64 reference; half of a small budget
SECOND_S = 6.0  # after which the running measurement, too, is interrupted
UNFINISHED = 6
LEAST_SERVED_S, PAIRS = 45.0, 30
PARTIAL_S = 20.0
GOALS = {"resnet50": 1.10, "vae": 2.0}  # lower bounds of the ratio; of the others none was set


Made = tuple[Any, Any, str]  # model, inputs, a note for reports


def _resnet50(device: str, tiny: bool) -> Made:
    from kernelforge._model import Wanted, make

    made = make(
        Wanted("resnet18", device=device)
        if tiny
        else Wanted("resnet50", batch=256, dtype="float16", channels_last=True, device=device)
    )
    return made.model, made.inputs, made.note


def _vae(device: str, tiny: bool) -> Made:
    import vae

    model, inputs = vae.make(device=device, **({"side": 4} if tiny else {}))
    _, origin = vae.decoder()
    return model, inputs, f"{TITLES['vae']}, batch 1 ({origin}), random weights"


def _published(name: str) -> Callable[[str, bool], Made]:
    def make(device: str, tiny: bool) -> Made:
        import published

        model, inputs = getattr(published, name)(device=device, tiny=tiny)
        library = published.library("diffusers" if name == "sd35" else "transformers", name)
        origin = f"{library.__name__} {library.__version__}"
        return model, inputs, f"{TITLES[name]} ({origin}), random weights"

    return make


MODELS: dict[str, Callable[[str, bool], Made]] = {
    "resnet50": _resnet50,
    "vae": _vae,
    **{name: _published(name) for name in ("sd35", "gemma4", "qwen35", "gemma4_token")},
}
TITLES = {
    "resnet50": "ResNet-50, float16, channels_last, batch 256",
    "vae": "SD 3.5 VAE decoder, bfloat16, 1024 px",
    "sd35": "SD 3.5 Medium transformer, bfloat16, batch 2, 1024 px",
    "gemma4": "Gemma 4 E2B, 5 of 35 layers, bfloat16, prompt of 2048",
    "qwen35": "Qwen 3.5 35B-A3B, 4 of 40 layers, bfloat16, prompt of 2048",
    "gemma4_token": "Gemma 4 E2B, 5 of 35 layers, bfloat16, one token",
}


class Partial(threading.Thread):
    """Writes what a search has so far, so that a machine that is taken away leaves something."""

    def __init__(self, path: Path, study: str) -> None:
        super().__init__(daemon=True)
        self.path, self.study, self.stopped = path, study, threading.Event()

    def run(self) -> None:
        from kernelforge import _studies
        from kernelforge.errors import KernelForgeError

        while not self.stopped.wait(PARTIAL_S):
            try:
                found = _studies.load(self.study, None)
            except KernelForgeError:
                continue  # it has not begun
            runs = [
                {k: r.get(k) for k in ("card", "overload", "state", "why", "best", "confirmed")}
                | {
                    "nodes": len(r["nodes"]) - 1,
                    "verdicts": _studies.verdicts(r),
                    "winners": len(r["winners"]),
                }
                for r in found["runs"]
            ]
            save(self.path, {"study": self.study, "spend": found["spend"], "runs": runs})

    def __enter__(self) -> Partial:
        self.start()
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        self.stopped.set()
        self.join()
        if kind is None:  # a search that was interrupted leaves what it had
            self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Have the block interrupted as by Ctrl-C, and once more, when its time is over: the first lets a search save what it has."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    timers = [
        threading.Timer(max(seconds, 0.0) + more, os.kill, (os.getpid(), signal.SIGINT))
        for more in (0.0, SECOND_S)
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def optimize(
    name: str, budget_s: float, candidates: int, fresh: bool, partial: Path, tier: int | None
) -> dict[str, Any]:
    """Search and measure; return the report's data."""
    import torch

    import kernelforge
    from kernelforge.errors import VerifyFault

    model, inputs, note = MODELS[name]("cuda", False)
    try:
        with torch.no_grad(), Partial(partial, name):
            kernelforge.optimize(
                model,
                inputs,
                study=name,
                candidates=candidates,
                max_seconds=max(budget_s / 2, budget_s - REST_S),
                tier=tier,
                fresh=fresh,
                name=name,
                note=note,
            )
    except VerifyFault as e:  # the study has its result nevertheless, and that says what was refused
        print(f"error: {e}", file=sys.stderr, flush=True)
        return kernelforge.report(name).to_dict()
    return kernelforge.report(model).to_dict()


def served(name: str, pack: str, seconds: float) -> dict[str, Any]:
    """Load a pack and time the whole model with it, in this process."""
    import torch

    import kernelforge
    from kernelforge import _ext, _measure, _outputs
    from kernelforge._inputs import device_of, forward_of, tensors_of

    model, inputs, _ = MODELS[name]("cuda", False)
    began = time.monotonic()
    plans = kernelforge.apply(pack)
    apply_s = time.monotonic() - began
    with torch.no_grad():
        forward, extension = forward_of(model, inputs), _ext.load()
        with kernelforge.disabled():
            eager = [t.clone() for t in tensors_of(forward())]
        kernelforge.stats(reset=True)
        ours = [t.clone() for t in tensors_of(forward())]
        hits = {name: op["hits"] for name, op in kernelforge.stats()["ops"].items() if op["hits"]}
        with _ext.switch(extension) as switch:
            timed = _measure.whole_model(
                forward,
                switch,
                blocks=PAIRS,
                seed=1,
                max_seconds=seconds / 3,
                place=device_of(model, inputs),
            )
    return {
        **timed,
        "plans": len(plans),
        "hits_a_forward": hits,
        "apply_s": round(apply_s, 3),
        "against_eager": _outputs.compare_tensors(eager, ours)["detail"],
        "peak_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


# ---- the result file --------------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    except (OSError, ValueError):
        return {}


def save(path: Path, result: dict[str, Any]) -> None:
    from kernelforge._report import write_whole

    write_whole(path, json.dumps(result, indent=1) + "\n")


def commit() -> str | None:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or None


def slug(device: str) -> str:
    """Return a device's short name for file names.

    Example:
        >>> slug("NVIDIA H200"), slug("NVIDIA GeForce RTX 5090")
        ('h200', 'rtx-5090')
    """
    words = device.lower().replace("nvidia", "").replace("geforce", "").split()
    return "-".join(words[:2]) if words[:1] == ["rtx"] else (words[0] if words else "gpu")


def begin_optimize(name: str, args: argparse.Namespace, path: Path) -> dict[str, Any]:
    partial = path.with_suffix(".partial.json")
    data = optimize(name, args.budget_s, args.candidates, args.fresh, partial, args.tier)
    pack = data.pop("pack")
    return {
        **{k: v for k, v in data.items() if k not in ("store", "page", "tree")},
        "title": TITLES[name],
        "goal": GOALS.get(name),
        "command": resumed.said("models", sys.argv[1:]),
        "commit": args.commit or commit(),
        "pack_in": os.path.relpath(pack, ROOT) if pack else None,
    }


def begin_served(name: str, result: dict[str, Any], left_s: float) -> dict[str, Any] | None:
    """Measure in a fresh process; what goes wrong there is the stage's result. None: it had too little time."""
    command = [
        sys.executable,
        __file__,
        name,
        "--served",
        str(ROOT / result["pack_in"]),
        "--budget-s",
        str(left_s),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left_s)
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        tail = " / ".join(done.stderr.strip().splitlines()[-3:])
        return {"ratio": None, "why": f"the process ended with code {done.returncode}: {tail}"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def words(result: dict[str, Any]) -> str:
    model, again = result["model"], result.get("served_again", {})
    if model.get("ratio") is None:
        return f"{result['title']}: {model['why']}"
    goal = result["goal"]
    judged = "" if goal is None else f"; goal {goal}: {'met' if model['low'] >= goal else 'not met'}"
    lines = [
        f"{result['title']}: {model['eager_ms']:.2f} -> {model['kernelforge_ms']:.2f} ms, {model['ratio']:.3f}x "
        f"({model['low']:.3f} to {model['high']:.3f}){judged}",
        f"outputs: {result['outputs'].get('detail')}; attributed {result['attributed']:.1%} by {result['timed_by']}",
    ]
    for what, found in (("graphs", model), ("fresh process", again), ("fresh process, graphs", again)):
        part = "graph_" if "graphs" in what else ""
        if found.get(f"{part}ratio"):
            values = (found[f"{part}{k}"] for k in ("eager_ms", "kernelforge_ms", "ratio", "low", "high"))
            lines.append("{}: {:.2f} -> {:.2f} ms, {:.3f}x ({:.3f} to {:.3f})".format(what, *values))
        elif f"{part}why" in found:
            lines.append(f"{what}: {found[part + 'why']}")
    return "\n".join(lines)


def stages(args: argparse.Namespace, path: Path, until: float) -> dict[str, Any]:
    """Carry out what the result file lacks, and save each stage. until: on the monotonic clock.

    Raises:
        KeyboardInterrupt: the time was over; the study's store has what was searched.
    """
    result = {} if args.fresh else load(path)
    wanted = {"budget_s": args.budget_s, "candidates": args.candidates}
    wanted |= {"tier": args.tier} if args.tier is not None else {}
    # A result that this commit has not made, or that a larger budget may better, is made again: the study answers at once if it has nothing to add.
    if result.get("wanted") != wanted or result.get("commit") != (args.commit or commit()):
        with interrupted_after(until - time.monotonic()):
            result = {**begin_optimize(args.model, args, path), "wanted": wanted}
        save(path, result)
        print(words(result), flush=True)
    left_s = until - time.monotonic()
    pack = result["pack_in"] and ROOT / result["pack_in"]
    # A pack that is not here lies on a machine that is gone: that says nothing of it.
    here = bool(pack) and pack.is_dir() and "served_again" not in result and left_s >= LEAST_SERVED_S
    if here and (again := begin_served(args.model, result, left_s)) is not None:
        result["served_again"] = again
        save(path, result)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--budget-s", type=float, default=540.0)
    parser.add_argument("--candidates", type=int, default=24, help="an operator, at most")
    parser.add_argument("--out", type=Path, help="default: bench/results/MODEL-DEVICE.json")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of store, packs and cache")
    parser.add_argument("--commit", help="what the result file says of the code; default: git's HEAD")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has found")
    parser.add_argument("--tier", type=int, help="of the sandbox, by number: 1 leaves compute-sanitizer out")
    parser.add_argument("--served", metavar="PACK", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ["KERNELFORGE_HOME"] = str(args.home)
    sys.path.insert(0, str(Path(__file__).parent))
    logging.basicConfig(
        format="%(relativeCreated)8.0f ms  %(message)s", level=logging.INFO, stream=sys.stderr
    )
    if args.served:
        print(json.dumps(served(args.model, args.served, args.budget_s)), flush=True)
        return 0
    import torch

    until = time.monotonic() + args.budget_s
    path: Path = args.out or RESULTS / f"{args.model}-{slug(torch.cuda.get_device_name())}.json"
    try:
        result = stages(args, path, until)
    except KeyboardInterrupt as e:
        print(f"{e}\n{args.model}: interrupted; the same command goes on", file=sys.stderr)
        return UNFINISHED
    print(words(result), flush=True)
    print(f"results: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
