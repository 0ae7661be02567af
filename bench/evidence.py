"""Everything that writes a file under bench/results, one program after the other, each within its part of a budget: what `make evidence` calls.

    python bench/evidence.py --budget-s 21600                   all that this machine can give, into bench/results
    python bench/evidence.py --budget-s 240 --into build/try    as a try, elsewhere
    python bench/evidence.py --only trust kills --list

Files are named by the program and the target (`host`, or the GPU's name). A program that a budget cut off, or that was killed, goes on where it was when
this is called again on the same commit; one that is done returns at once. Parts of one another come first: trust takes guard, faults and timing from
beside it, search-ablation the cost tables. Without a GPU only what is for the host runs. Every program gets 20 s at least, and ends what it measures beyond its part. The exit code is 0
if every program ended well, 4 if one found something wrong, 6 if one is unfinished.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
GRACE_S = 900.0  # a program ends what it measures beyond its budget
LEAST_S = 20.0  # a program gets this much, however small its part is
UNFINISHED = 6


@dataclass(frozen=True)
class Program:
    """One program.

    command: of the target, the seconds it may take, and its file.
    share: of the whole budget, relative to the others'.
    """

    command: Callable[[str, int, Path], list[str]]
    share: float
    targets: tuple[str, ...] = ("host", "cuda")


def _bench(name: str, *more: str, out: str = "--out") -> Callable[[str, int, Path], list[str]]:
    def command(target: str, seconds: int, file: Path) -> list[str]:
        device = {"host": "cpu", "cuda": "cuda"}[target]
        words = [w.format(target=target, device=device) for w in more]
        return [sys.executable, f"bench/{name}.py", *words, "--budget-s", str(seconds), out, str(file)]

    return command


def _demo(target: str, seconds: int, file: Path) -> list[str]:
    options = ["--fresh", "--budget-s", str(seconds), "--results", str(file)]
    return [sys.executable, "-m", "kernelforge", "demo", *options]


def _ablation(target: str, seconds: int, file: Path) -> list[str]:
    slug = file.stem.removeprefix("search-ablation-")
    tables = file.with_name(f"cost-tables-{slug}.json.gz")
    return [sys.executable, "bench/ablation.py", "--tables", str(tables), "--into", str(file.parent)]


TARGET, DEVICE = ("--target", "{target}"), ("--device", "{device}")
PROGRAMS: dict[str, Program] = {
    "dispatch": Program(_bench("dispatch", *DEVICE), 2),
    "search": Program(_bench("search", *DEVICE), 2),
    "cost-tables": Program(_bench("cost_tables", *TARGET), 8),
    "search-ablation": Program(_ablation, 1),
    "demo": Program(_demo, 2, ("host",)),
    "templates": Program(_bench("templates", out="--out"), 2, ("cuda",)),
    "resnet50": Program(_bench("models", "resnet50"), 4, ("cuda",)),
    "vae": Program(_bench("models", "vae"), 4, ("cuda",)),
    "captured": Program(_bench("captured", *DEVICE, "--lanes", "3"), 6, ("cuda",)),
    "author": Program(_bench("author", *DEVICE), 3, ("cuda",)),
    "ops": Program(_bench("ops", *TARGET), 12),
    "tolerance-pilot": Program(_bench("tolerance_pilot", *DEVICE), 3),
    "timing": Program(_bench("timing", *TARGET), 6),
    "guard": Program(_bench("guard", *TARGET), 8),
    "faults": Program(_bench("faults", *TARGET), 6),
    "kills": Program(_bench("kills", *TARGET), 4),
    "interrupts": Program(_bench("interrupts"), 6, ("host",)),
    "trust": Program(_bench("trust", *TARGET), 12),
}


def slugs() -> dict[str, str]:
    """Return the targets of this machine, and how their files are named: {"host": "host", "cuda": "h200"}."""
    import torch

    found = {"host": "host"}
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_device_name().split()[-1].lower()
    return found


def run(name: str, target: str, seconds: float, file: Path) -> int:
    """Run a program; return its exit code, UNFINISHED if it had to be killed."""
    command = PROGRAMS[name].command(target, max(1, round(seconds)), file)
    print(f"{name}, {target}: {seconds:.0f} s: {' '.join(command[1:])}", flush=True)
    began = time.monotonic()
    try:
        code = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=seconds + GRACE_S, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        code = UNFINISHED
    print(f"{name}, {target}: code {code} after {time.monotonic() - began:.0f} s", flush=True)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--budget-s", type=float, default=21600.0, help="of all programs together; at least 20 s each"
    )
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--only", choices=PROGRAMS, nargs="+", help="run these")
    parser.add_argument("--list", action="store_true", help="show the commands, and run none")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "bindings/python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    names, into = args.only or list(PROGRAMS), args.into.absolute()
    here = slugs()
    todo = [(n, t) for n in names for t in PROGRAMS[n].targets if t in here]
    into.mkdir(parents=True, exist_ok=True)
    until, codes = time.monotonic() + args.budget_s, dict[str, int]()
    for i, (name, target) in enumerate(todo):
        rest = sum(PROGRAMS[n].share for n, _ in todo[i:])
        seconds = max(until - time.monotonic(), 0) * PROGRAMS[name].share / rest
        file = into / f"{name}-{here[target]}.json"
        if args.list:
            print(" ".join(PROGRAMS[name].command(target, round(seconds), file)))
        else:
            codes[f"{name}, {target}"] = run(name, target, max(seconds, LEAST_S), file)
    bad = {n: c for n, c in codes.items() if c}
    for name, code in bad.items():
        print(f"{name}: {'unfinished; call again' if code == UNFINISHED else f'code {code}'}")
    return max((c for c in bad.values() if c != UNFINISHED), default=UNFINISHED if bad else 0)


if __name__ == "__main__":
    sys.exit(main())
