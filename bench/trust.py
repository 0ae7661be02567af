"""What the judge is worth: the red-team corpus, guards fuzzed, faults survived, acceptances by chance, sandbox tiers. Writes bench/results/trust-host.json.

    python bench/trust.py --budget-s 7200
    python bench/trust.py --budget-s 540 --target cuda        trust-h200.json, by the device's name

Each section is another program, which prints its part as JSON; this one calls them and puts their fields together, with the names of docs/formats.md:

    corpus   kernelforge redteam                bad, killed, survived, good, false_rejects, elsewhere, by_kind, left (files not judged)
    guard    bench/guard.py                     guard_calls, wrong, crashes
    faults   bench/faults.py                    faults, contained, recover_s_max
    aa       bench/timing.py                    aa_trials, aa_accepted
    tiers    the worker program's own tries     tiers

The results of guard, faults and timing lie beside it, as if they had been called alone; what they have already is not measured again.
The file is written after each section. A section that was completed on this commit is not run again; one that the budget cut off goes on where its
program left off. A field that was not measured is null, and `sections` says why.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import programs
import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
LEAST_S = 20.0  # a section that has less left is not begun
ENDING_S = 10.0  # a program that is told to end saves what it has
GRACE_S = 120.0  # a program ends its running measurement beyond its budget

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What is asked of a program.

    kept: the file of its own result. jobs: how many processes may work side by side. commit: of the code, "" where git says it.
    """

    target: str
    seconds: float
    kept: Path
    jobs: int = 1
    commit: str = ""

    @property
    def side_by_side(self) -> str:
        """How many processes, as an option's value; "" for one."""
        return str(self.jobs) if self.jobs > 1 else ""

    def words(self, **options: str) -> list[str]:
        """Return the options that every bench has, with those of one of them."""
        given = {"target": self.target, "budget-s": f"{self.seconds:.0f}", **options}
        return [w for name, value in given.items() if value for w in (f"--{name}", value)]


@dataclass(frozen=True)
class Section:
    """One program.

    command: of what is asked.
    file: the first part of that file's name; "": it has none.
    share: of the whole budget.
    fields: what it measures.
    done: whether an answer of a target is whole.
    """

    command: Callable[[Asked], Sequence[str]]
    share: float
    fields: tuple[str, ...]
    done: Callable[[Json, str], bool] = lambda answer, target: True
    file: str = ""


def _corpus(asked: Asked) -> list[str]:
    jobs = asked.side_by_side if asked.target == "cuda" else ""  # on a host nobody takes turns
    return [sys.executable, "-m", "kernelforge", "redteam", "--json", *asked.words(jobs=jobs)]


def _guard(asked: Asked) -> list[str]:
    more = asked.words(out=str(asked.kept), jobs=asked.side_by_side, commit=asked.commit)
    return [sys.executable, "bench/guard.py", *more]


def _faults(asked: Asked) -> list[str]:
    more = asked.words(
        out=str(asked.kept), commit=asked.commit
    )  # one at a time: searches side by side would wait for each other
    return [sys.executable, "bench/faults.py", *more, "--json"]


def _aa(asked: Asked) -> list[str]:
    return [sys.executable, "bench/timing.py", *asked.words(out=str(asked.kept), commit=asked.commit)]


def _tiers(asked: Asked) -> list[str]:
    from kernelforge import _core, _nvrtc, _settings

    command = [str(_core.WORKER), "tiers", "--runtime", str(_core.RUNTIME)]
    if asked.target == "host":
        return [*command, "--device", "-1", "--cxx", _settings.compiler() or ""]
    return [*command, "--device", "0", "--nvrtc", str(_nvrtc.find() or "")]


AA_TRIALS = {"host": 1000, "cuda": 200}

SECTIONS: dict[str, Section] = {
    "corpus": Section(
        _corpus,
        0.5,
        ("bad", "killed", "survived", "good", "false_rejects", "elsewhere", "by_kind", "left"),
        lambda a, target: not a["left"],
    ),
    "guard": Section(
        _guard,
        0.2,
        ("guard_calls", "wrong", "crashes"),
        lambda a, target: a["guard_calls"] >= 10_000,
        "guard",
    ),
    "faults": Section(
        _faults, 0.15, ("faults", "contained", "recover_s_max"), lambda a, target: "left" not in a, "faults"
    ),
    "aa": Section(
        _aa,
        0.15,
        ("aa_trials", "aa_accepted"),
        lambda a, target: a["aa_trials"] >= AA_TRIALS[target],
        "timing",
    ),
    "tiers": Section(_tiers, 0.0, ("tiers",)),  # without the folders of this machine: they prove nothing
}


def last_object(text: str) -> Json | None:
    """Return the JSON object that a program printed, alone or on its last line, or None."""
    for part in (text, *reversed(text.strip().splitlines())):
        try:
            found = json.loads(part)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def measure(
    name: str, target: str, seconds: float, beside: Path, jobs: int = 1, commit: str = ""
) -> tuple[Json, Json]:
    """Run a section's program, its own result beside this one; return its fields, null where it has none, and how it went: done, why, command, seconds."""
    section = SECTIONS[name]
    nothing = dict.fromkeys(section.fields)
    kept = beside.with_name(f"{section.file or name}-{beside.name.removeprefix('trust-')}")
    command = list(section.command(Asked(target, seconds, kept, jobs, commit)))
    said = " ".join(Path(c).name if os.path.isabs(c) else c for c in command)
    began = time.monotonic()
    how: Json = {"command": said, "done": False, "why": "", "seconds": 0.0}
    try:
        code, printed, _ = programs.output(command, seconds + GRACE_S, end_s=ENDING_S, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired) as e:
        return nothing, how | {"why": f"{type(e).__name__}: {e}"[:300]}
    how["seconds"] = round(time.monotonic() - began, 1)
    answer = last_object(printed)
    missing = [f for f in section.fields if f not in (answer or {})]
    if answer is None or missing:
        error = (answer or {}).get("error") or {}
        why = error.get("text") or (
            f"no {', '.join(missing)} in its answer" if answer is not None else "no JSON"
        )
        return nothing, how | {"why": f"exit code {code}: {why}"}
    how["done"] = section.done(answer, target)
    how["why"] = "" if how["done"] else "the budget ended first"
    for tier in answer.get("tiers", []):
        tier.pop("room", None)
    return {f: len(answer[f]) if f == "left" else answer[f] for f in section.fields}, how


def verdict(result: Json) -> list[str]:
    """Return what is not as it has to be, of what was measured."""
    wrong = [f"{what}: {result[what]}" for what in ("survived", "false_rejects") if result.get(what)]
    wrong += [f"{what}: {result[what]}" for what in ("wrong", "crashes") if result.get(what)]
    if result.get("faults") is not None and result["contained"] != result["faults"]:
        wrong.append(f"faults contained: {result['contained']} of {result['faults']}")
    if result.get("recover_s_max") is not None and result["recover_s_max"] > 2:
        wrong.append(f"recover_s_max: {result['recover_s_max']}")
    if result.get("aa_trials") and result["aa_accepted"] > 0.005 * result["aa_trials"]:
        wrong.append(f"accepted by chance: {result['aa_accepted']} of {result['aa_trials']}")
    return wrong


def output_file(target: str) -> Path:
    """Return the result's place: by the name of the device."""
    if target == "host":
        return RESULTS / "trust-host.json"
    from kernelforge._pins import environment
    from kernelforge._place import Place

    device = str(environment(Place(0))["device"])
    return RESULTS / f"trust-{device.split()[-1].lower()}.json"


def environment_of(target: str) -> Json:
    from kernelforge._pins import environment
    from kernelforge._place import HOST, Place

    return environment(HOST if target == "host" else Place(0))


def save(path: Path, result: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".tmp")
    made.write_text(json.dumps(result, indent=1) + "\n")
    made.replace(path)


def load(path: Path, commit: str) -> Json:
    """Return what was measured on this commit, else an empty result."""
    before = _read(path)
    return before if before.get("commit") == commit else {}


def _read(path: Path) -> Json:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def head() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--budget-s", type=float, default=3600.0)
    parser.add_argument("--only", choices=sorted(SECTIONS), nargs="+", help="run these sections")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="with --target cuda: processes side by side, of corpus and guard (1)",
    )
    parser.add_argument("--fresh", action="store_true", help="run completed sections again")
    parser.add_argument("--commit", help="what the result says of the code, where there is no git")
    parser.add_argument("--out", "--output", type=Path, help="the result's file, trust-NAME.json")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    path, commit = (args.out or output_file(args.target)).absolute(), args.commit or head()
    result = {} if args.fresh else load(path, commit)
    result = {
        "schema": 1,
        "made": "",
        "command": resumed.said("trust", sys.argv[1:]),
        "commit": commit,
        "env": environment_of(args.target),
        **{f: result.get(f) for s in SECTIONS.values() for f in s.fields},
        "sections": result.get("sections", {}),
    }
    for name in SECTIONS if args.only else ():
        if name not in args.only:
            result["sections"].setdefault(name, {"done": False, "why": "it was not asked for (--only)"})
    deadline = time.monotonic() + args.budget_s
    open_names = [n for n in args.only or SECTIONS if not result["sections"].get(n, {}).get("done")]
    for i, name in enumerate(open_names):
        left = deadline - time.monotonic()
        rest = sum(SECTIONS[n].share for n in open_names[i:])
        seconds = left * SECTIONS[name].share / rest if rest and SECTIONS[name].share else LEAST_S
        if left < LEAST_S and SECTIONS[name].share:
            result["sections"].setdefault(name, {"done": False, "why": "the budget ended first"})
            continue
        print(f"{name}: {seconds:.0f} s at most", file=sys.stderr, flush=True)
        fields, how = measure(name, args.target, seconds, path, args.jobs, args.commit or "")
        kept = result["sections"].get(name, {})
        if any(v is not None for v in fields.values()) or not kept:
            result |= fields
        result["sections"][name] = how
        result["made"] = resumed.now()
        save(path, result)
        print(
            f"{name}: {'done' if how['done'] else how['why']} in {how['seconds']:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    wrong = verdict(result)
    for line in wrong:
        print(f"not as it has to be: {line}", file=sys.stderr)
    undone = [n for n in SECTIONS if not result["sections"].get(n, {}).get("done")]
    if undone:
        print(f"not complete: {', '.join(undone)}; run again to go on: {path}", file=sys.stderr)
    return 4 if wrong else 6 if undone else 0


if __name__ == "__main__":
    raise SystemExit(main())
