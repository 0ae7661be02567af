"""Guard fuzz: random calls of every hooked operator with plans published; each result must be eager's, each fall-back must have a reason.

    python bench/guard.py --target host --calls 10000 --seed 1 --budget-s 1800
    python bench/guard.py --target cuda --calls 10000 --seed 1 --budget-s 300
    python bench/guard.py --target host --seed 1 --only 4711        # one call again, in this process

Writes bench/results/guard-host.json, or guard-SLUG.json for the device, and prints it: guard_calls, wrong, crashes, reasons {reason: count},
by_op, eager_crashes (calls in which torch without us ends its process, too) and a line that makes each failure again. A child process makes the calls, so a crash or a hang is counted and the next child goes on behind it. What is
done is saved every few seconds; the same command takes a run up where it stopped, `--fresh` begins again. Exit code 1 if anything was wrong or crashed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import resumed

sys.path.insert(0, str(Path(__file__).parent))
from guard_children import Children
from guard_result import Result

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
DEVICES = {"host": "cpu", "cuda": "cuda"}
CALL_SECONDS = 120.0  # after which a call hangs; compiling one on a busy machine takes seconds
START_SECONDS = 600.0  # to compile the plans
LOST = 70  # exit code of a child whose device's context is of no more use
ALONE_TRIES = 20  # of a call on a device, whether it is eager's own
CHILDREN = 100  # that may crash before the run is given up

# ---- the child ----------------------------------------------------------------------------------------------------------------------


def checker(target: str, few: bool) -> Any:
    """Return a Checker with every plan published."""
    sys.path.insert(0, str(Path(__file__).parent))
    import torch

    torch.set_num_threads(1)
    import guard_calls
    from guard_check import Checker

    from kernelforge import _ext

    device = DEVICES[target]
    if device == "cuda":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    bases = guard_calls.bases(device)
    plans = guard_calls.plans(bases, device, few)
    _ext.load().publish(plans)
    return Checker(bases, plans, device)


def work(args: argparse.Namespace) -> int:
    """Be the child: make the calls from --first on. A line before each, one when it is drawn (what calls before it have broken may show there), one after."""
    print(json.dumps({"begin": -1}), flush=True)
    if args.alone is not None:
        return _alone(args)
    made = checker(args.target, args.few_templates)
    for number in range(args.first, args.calls, args.step):
        print(json.dumps({"begin": number, "overload": made.overload_of(number)}), flush=True)
        try:
            found = made.check(
                args.seed, number, lambda notes: print(json.dumps({"notes": notes}), flush=True)
            )
        except Exception as e:  # a fault of the check: told, and no crash of what is checked
            where = traceback.format_exc(limit=-2).strip().replace("\n", " | ")
            found = {
                "overload": made.overload_of(number),
                "notes": [],
                "error": "",
                "hits": 0,
                "reasons": {},
                "wrong": f"the check itself failed: {e!r}: {where}",
            }
        if args.target == "cuda" and _context_lost():
            os._exit(LOST)  # a crash: nothing that this process finds from now on would be of the calls
        print(json.dumps({"done": number, **found}), flush=True)
    return 0


def _context_lost() -> bool:
    """Return whether the device's context is of no more use: a kernel faulted, whoever's it was."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _alone(args: argparse.Namespace) -> int:
    """Make one call with no plan published and the hooks of this thread off: is a crash eager's own?"""
    sys.path.insert(0, str(Path(__file__).parent))
    import guard_calls
    import guard_check

    from kernelforge import _ext

    draft = guard_check.draft_of(
        guard_calls.bases(DEVICES[args.target]), DEVICES[args.target], args.seed, args.alone
    )
    cuda = args.target == "cuda"
    with _ext.load().thread_off():
        # What a kernel of torch's meets beyond its tensors is chance: a device that faults at it may do so at another try.
        for _ in range(ALONE_TRIES if cuda else 1):
            guard_check.look(guard_check.run(draft))
            if cuda and _context_lost():
                return LOST
    return 0


# ---- the parent ---------------------------------------------------------------------------------------------------------------------


def lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Give the lines of a child, None when none came in time, and end with it."""
    waiting: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            waiting.put(line)
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    seconds = START_SECONDS
    while True:
        try:
            line = waiting.get(timeout=seconds)
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        if line.startswith("{"):
            found = json.loads(line)
            seconds = START_SECONDS if found.get("begin") == -1 else CALL_SECONDS
            yield found


def fuzz(result: Result, args: argparse.Namespace, command: Sequence[str]) -> None:
    """Make the calls that are missing, until they are done or the time is over. command: of a child, less its --first.

    Raises:
        RuntimeError: a child that does not come to its first call, or too many that crash.
    """
    began, before = time.monotonic(), result.data["seconds"]
    lanes, children = range(len(result.data["next"])), Children()

    def tick() -> bool:
        result.data["seconds"] = round(before + time.monotonic() - began, 1)
        return time.monotonic() - began >= args.budget_s

    with ThreadPoolExecutor(len(lanes)) as pool:
        ends = [pool.submit(_lane, result, args, command, lane, tick, children) for lane in lanes]
        try:
            wait(ends)
        except BaseException:  # a Ctrl-C
            children.end()
            raise
        finally:
            result.save(now=True)
    for end in ends:
        end.result()


def _lane(
    result: Result,
    args: argparse.Namespace,
    command: Sequence[str],
    lane: int,
    over: Callable[[], bool],
    children: Children,
) -> None:
    """Make every n-th call, one child after the other."""
    while result.data["next"][lane] < args.calls and not over():
        step = str(len(result.data["next"]))
        child = children.begin([*command, "--first", str(result.data["next"][lane]), "--step", step])
        talk: list[str] = []
        threading.Thread(target=lambda c=child, t=talk: t.extend(c.stderr), daemon=True).start()
        at: dict[str, Any] = {"begin": -1}
        hung = late = False
        try:
            for line in lines(child):
                if line is None:
                    hung = True
                elif "begin" in line:
                    at = line
                elif "done" not in line:
                    at |= line
                else:
                    result.add(lane, line, again(args, line["done"]))
                    at = {"begin": -1}
                late = over()
                if hung or late:
                    break
        finally:
            if child.poll() is None and (hung or late or sys.exc_info()[0]):
                child.kill()
            code = child.wait()
        if late or children.ended or (code == 0 and not hung):
            return
        tail = " | ".join(t.strip() for t in talk[-12:])
        if at["begin"] < 0:
            raise RuntimeError(
                f"fuzz the guard: the child ended with code {code} before its next call: {tail}"
            )
        alone = eagers_own(args, [*command, "--alone", str(at["begin"])])
        what = f"no answer in {CALL_SECONDS:g} s" if hung else f"the process ended with code {code}"
        result.crash(lane, at, f"{what}: {tail}", again(args, at["begin"]), alone and not hung)
        if result.data["crashes"] > CHILDREN:
            raise RuntimeError(f"fuzz the guard: {result.data['crashes']} children crashed")


def eagers_own(args: argparse.Namespace, command: Sequence[str]) -> bool:
    """Return whether a call ends its process without any plan or hook; on a device also where each tensor has memory of its own, around which nothing is
    mapped."""
    apart = [{}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}] if args.target == "cuda" else [{}]
    return any(
        ended(
            subprocess.run(
                command, capture_output=True, check=False, env=os.environ | more, process_group=0
            ).returncode
        )
        for more in apart
    )


def ended(code: int) -> bool:
    """Return whether a call has ended its process: by a signal, or the device's context with it.

    Example:
        >>> ended(-11), ended(LOST), ended(0), ended(1)
        (True, True, False, False)
    """
    return code < 0 or code == LOST


def again(args: argparse.Namespace, number: int) -> str:
    return f"python bench/guard.py --target {args.target} --seed {args.seed} --only {number}"


def build() -> str:
    """Return a hash of what the numbers are about: a run goes on only where nothing of it has changed."""
    from kernelforge import _ext

    _ext.load()
    files = [
        *sorted(Path(__file__).parent.glob("guard*.py")),
        Path(sys.modules["kernelforge._C"].__file__ or ""),
    ]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]


def head(args: argparse.Namespace) -> dict[str, Any]:
    from kernelforge import _pins
    from kernelforge._place import HOST, Place

    place = HOST if args.target == "host" else Place(0)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "schema": 1,
        "made": resumed.now(),
        "command": resumed.said("guard", sys.argv[1:]),
        "commit": args.commit or commit.stdout.strip(),
        "build": build(),
        "env": _pins.environment(place),
        "target": args.target,
        "seed": args.seed,
        "jobs": args.jobs,
    }


def measure(
    target: str,
    calls: int,
    seed: int,
    budget_s: float,
    *,
    out: Path | None = None,
    fresh: bool = False,
    few: bool = False,
) -> dict[str, Any]:
    """Return the result of a run, taken up where the last one stopped: what bench/trust.py merges.

    Args:
        target: `host` or `cuda`.
        out: file of the result; default: under bench/results.
        few: with a dozen plans of templates instead of all, which start sooner.

    Returns:
        guard_calls, wrong, crashes, reasons {reason: count}, by_op, failures and more (the file's content).
    """
    options = ["--target", target, "--calls", str(calls), "--seed", str(seed), "--budget-s", str(budget_s)]
    return _measure(parser().parse_args([*options, *(["--few-templates"] if few else [])]), out, fresh)


def _measure(args: argparse.Namespace, out: Path | None, fresh: bool) -> dict[str, Any]:
    first = head(args)
    slug = (
        "host"
        if args.target == "host"
        else re.sub(r"^(nvidia )?", "", str(first["env"]["device"]).lower()).replace(" ", "-")
    )
    result = Result(out or RESULTS / f"guard-{slug}.json", first, fresh)
    options = ["--child", "--target", args.target, "--calls", str(args.calls), "--seed", str(args.seed)]
    fuzz(
        result,
        args,
        [sys.executable, __file__, *options, *(["--few-templates"] if args.few_templates else [])],
    )
    return result.data


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    p.add_argument("--target", choices=sorted(DEVICES), default="host")
    p.add_argument("--calls", type=int, default=10_000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument(
        "--budget-s",
        type=float,
        default=1800.0,
        help="seconds after which the run stops; the same command goes on",
    )
    p.add_argument(
        "--out", type=Path, help="file of the result (bench/results/guard-host.json, guard-h200.json)"
    )
    p.add_argument("--commit", help="what the result says of the code; default: git's HEAD")
    p.add_argument("--fresh", action="store_true", help="begin again")
    p.add_argument("--only", type=int, metavar="NUMBER", help="make one call here and show what was found")
    p.add_argument(
        "--few-templates",
        action="store_true",
        help="a dozen plans of templates instead of all: starts sooner",
    )
    p.add_argument(
        "--jobs", type=int, default=1, help="children side by side (1); each makes every n-th call"
    )
    p.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    p.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    p.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return p


def main() -> int:
    args = parser().parse_args()
    if args.child:
        return work(args)
    if args.only is not None:
        found = checker(args.target, args.few_templates).check(args.seed, args.only)
        print(json.dumps(found, indent=1))
        return int(bool(found["wrong"]))
    data = _measure(args, args.out, args.fresh)
    print(
        json.dumps(
            {
                k: data[k]
                for k in ("guard_calls", "wrong", "crashes", "reasons", "served", "errors", "seconds")
            }
        )
    )
    for failure in data["failures"]:
        print(
            f"{failure['overload']} {failure['changes']}: {failure['detail']}\n  again: {failure['again']}",
            file=sys.stderr,
        )
    return int(data["wrong"] + data["crashes"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
