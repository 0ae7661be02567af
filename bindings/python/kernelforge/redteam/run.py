"""One run of the corpus: which files, their calls captured as a study captures them, the judge's results, and what they come to.

It owns selection, resume and the summary. It refuses to judge and to read corpus files: the core has them, and puts each through the gates of a search.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import _core, _ext, _needs, _pack, _search, _settings
from .._place import HOST, Place
from .._profile import Profile, profile
from .._progress import Progress
from ..errors import Interrupted, KernelForgeError, UsageFault
from .calls import CALLS

Result = dict[str, Any]
_SAVED = 1  # form of the file of results


def files(target: str) -> list[dict[str, Any]]:
    """Return the corpus of a target: {name, good, kind, call, dies, gate, only, why} a file.

    Example:
        >>> len([f for f in files("host") if not f["good"]]) >= 60
        True
    """
    found: list[dict[str, Any]] = _core.call("redteam.files", target=target)["files"]
    return found


def chosen(
    corpus: Sequence[dict[str, Any]],
    only: str = "",
    sample: int | None = None,
    seed: int = 0,
    part: tuple[int, int] = (1, 1),
) -> list[dict[str, Any]]:
    """Return the files that are asked for.

    Args:
        only: a pattern of names, kinds, calls or gates: `bad/*`, `cache_*`, `add_fp32_odd`. "" takes all.
        sample: so many of them, drawn with the seed; None takes all.
        part: (k, n): the k-th of n parts of these, whose files of one call stay together as far as parts of a size allow.

    Raises:
        UsageFault: the pattern fits nothing.
    """
    patterns = [only, f"*{only}*"]
    fitting = [
        f
        for f in corpus
        if not only
        or any(
            fnmatch.fnmatchcase(str(word), p)
            for p in patterns
            for word in (f["name"], f["kind"], f["call"], f.get("gate", ""))
        )
    ]
    if not fitting:
        raise UsageFault(
            f"judge the corpus with only=`{only}`: no file fits",
            hint="it is matched with names (`host/bad/*`), kinds (`partial_write`), calls (`add_fp32_odd`) and gates (`poison`)",
        )
    if sample is not None and sample < len(fitting):
        drawn = random.Random(seed).sample(range(len(fitting)), sample)
        fitting = [fitting[i] for i in sorted(drawn)]
    if part == (1, 1):
        return fitting
    k, n = part
    together = sorted(fitting, key=lambda f: str(f["call"]))
    return together[(k - 1) * len(together) // n : k * len(together) // n]


class Captured:
    """The cards of some calls, each made in this process under capture: what the referee needs of a profile, and the core of a study.

    Raises:
        KernelForgeError: a call reached another operator than the one that the table names.
    """

    def __init__(self, names: Iterable[str], place: Place) -> None:
        self.cards: list[dict[str, Any]] = []
        self.by_call: dict[str, dict[str, Any]] = {}
        self._profiles: dict[str, tuple[Profile, str]] = {}
        for name in names:
            self._capture(name, place)

    def _capture(self, name: str, place: Place) -> None:
        from ..referee.calls import overload

        call = CALLS[name]
        function, arguments = overload(call.overload), call.made(name, place)

        def forward(*_: Any) -> Any:
            return function(arguments)

        seen = profile(forward, tuple(_tensors(arguments)), forwards=3)
        found = next((c for c in seen.cards if c["overload"] == call.overload), None)
        if found is None:
            reached = ", ".join(c["overload"] for c in seen.cards) or "no hooked operator"
            raise KernelForgeError(
                f"capture the call `{name}`: it reached {reached} (expected {call.overload})"
            )
        # Two calls of one operator are two cards here: their files are judged apart.
        own = "c-" + hashlib.sha256(f"{found['id']} {name}".encode()).hexdigest()[:8]
        self._profiles[own] = (seen, found["id"])
        self.by_call[name] = {**found, "id": own, "share": 1.0}
        self.cards.append(self.by_call[name])

    def payload(self, card: str, variant: str) -> list[Any] | None:
        """Return the arguments of a variant as they were captured."""
        seen, own = self._profiles[card]
        return seen.payload(own, variant)

    def align(self, card: str, variant: str) -> list[int]:
        """Return per input slot the alignment that was seen, bytes."""
        seen, own = self._profiles[card]
        return seen.align(own, variant)


def _tensors(arguments: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for a in arguments:
        found += [t for t in (a if isinstance(a, list) else [a]) if hasattr(t, "device")]
    return found


def identity() -> str:
    """Return a hash of everything that judges: this package, the core, the worker and the runtime. Results of another judge say nothing."""
    folder, hasher = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if (file.suffix in (".py", ".so") or file.parent.name == "lib") and file.is_file():
            hasher.update(
                file.relative_to(folder).as_posix().encode() + hashlib.sha256(file.read_bytes()).digest()
            )
    return hasher.hexdigest()[:16]


def redteam(
    target: str = "host",
    *,
    only: str = "",
    sample: int | None = None,
    seed: int = 0,
    part: tuple[int, int] = (1, 1),
    budget_s: float | None = None,
    off: Sequence[str] = (),
    place: Place = HOST,
    saved: Path | None = None,
    fresh: bool = False,
    progress: str | bool = "auto",
    tell: Callable[[Result], None] | None = None,
) -> dict[str, Any]:
    """Put corpus files through the judge and return what became of them.

    Args:
        target: "host" or "cuda".
        only, sample, seed, part: which files; see `chosen`.
        budget_s: seconds after which no file is begun; the same call goes on.
        off: gates that are switched off, for tests of the corpus itself. Never saved.
        place: where the calls run.
        saved: file of results, saved after each; None keeps none. Results of another judge are dropped.
        fresh: judge again what is saved.
        tell: called with each new result.

    Returns:
        {"target", "judge", "bad", "killed", "survived" [names], "good", "false_rejects" [names], "elsewhere" [names: killed, but not by the gate or
        with a status that the file names], "by_kind" {kind: {"bad", "killed"}}, "files" [result], "left" [names that were not judged],
        "seconds"}.

    Raises:
        UsageFault: no file fits.
        EnvironmentFault: no compiler, no core.
        Interrupted: by Ctrl-C; what was judged is saved.

    Source: docs/security.md, `the corpus`.
    """
    began = time.monotonic()
    wanted = chosen(files(target), only, sample, seed, part)
    judge = identity()
    results = {} if off or fresh else _load(saved, judge)
    open_files = [f for f in wanted if f["name"] not in results]

    def keep(result: Result) -> None:
        results[result["name"]] = result
        if saved is not None and not off:
            _save(saved, judge, results)
        if tell is not None:
            tell(result)

    if open_files:
        _judge(target, open_files, seed, budget_s, off, place, keep, Progress(progress))
    mine = [results[f["name"]] for f in wanted if f["name"] in results]
    left = [f["name"] for f in wanted if f["name"] not in results]
    return {
        "target": target,
        "judge": judge,
        **summary(mine),
        "files": mine,
        "left": left,
        "seconds": round(time.monotonic() - began, 1),
    }


def _judge(
    target: str,
    open_files: Sequence[dict[str, Any]],
    seed: int,
    budget_s: float | None,
    off: Sequence[str],
    place: Place,
    keep: Callable[[Result], None],
    bar: Progress,
) -> None:
    """Run the files in the core, and carry out the referee's tasks."""
    import torch

    from ..referee import Referee

    began = time.monotonic()
    compiler = _needs.compiler(place)
    cache = _settings.writable_folder(_settings.read().cache, "cache")
    unknown = sorted({f["call"] for f in open_files} - set(CALLS))
    if unknown:
        raise KernelForgeError(f"judge the corpus: no call is named {', '.join(unknown)}")
    _ext.load()
    with torch.no_grad(), place.current(), _pack.disabled():
        captured = Captured(dict.fromkeys(f["call"] for f in open_files), place)
        session = f"redteam-{target}-{os.getpid()}"
        settings: dict[str, Any] = {
            "worker": str(_core.WORKER),
            "runtime": str(_core.RUNTIME),
            "cache": str(cache),
            "scratch": str(_settings.scratch_folder()),
            "jobs": len(os.sched_getaffinity(0)),
            "seconds": 0 if budget_s is None else max(budget_s - (time.monotonic() - began), 1e-3),
            **_needs.tools(place, compiler),
        }
        if off:
            settings["off"] = list(off)

        def watch(event: dict[str, Any]) -> None:
            keep(event["data"])

        try:
            with (
                _search.opened(
                    session,
                    "redteam.start",
                    name=session,
                    target=target,
                    files=[f["name"] for f in open_files],
                    cards=captured.by_call,
                    seed=seed,
                    settings=settings,
                ),
                Referee(captured, seed=seed, place=place) as referee,
            ):
                _search.drive(session, referee.execute, bar, watch)
        except KeyboardInterrupt:
            hint = "the same call goes on from there"
            raise Interrupted(
                f"judge the corpus: interrupted; what was judged is saved\nhint: {hint}"
            ) from None


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """Return the rates of some results, with the fields of bench/results/trust-*.json."""
    bad, good = [r for r in results if not r["good"]], [r for r in results if r["good"]]
    by_kind: dict[str, dict[str, int]] = {}
    for r in sorted(bad, key=lambda r: r["kind"]):
        row = by_kind.setdefault(r["kind"], {"bad": 0, "killed": 0})
        row["bad"] += 1
        row["killed"] += bool(r["right"])
    return {
        "bad": len(bad),
        "killed": sum(bool(r["right"]) for r in bad),
        "survived": [r["name"] for r in bad if not r["right"]],
        "good": len(good),
        "false_rejects": [r["name"] for r in good if not r["right"]],
        "elsewhere": [r["name"] for r in bad if r["right"] and not r["meant"]],
        "by_kind": by_kind,
    }


def forget(path: Path, names: Iterable[str]) -> None:
    """Drop what is saved of some files: they are then judged anew by whoever goes on, and once."""
    gone, judge = set(names), identity()
    with _locked(path):
        _replace(path, judge, {n: r for n, r in _load(path, judge).items() if n not in gone})


def _load(path: Path | None, judge: str) -> dict[str, Result]:
    if path is None or not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if stored.get("form") != _SAVED or stored.get("judge") != judge:
        return {}
    return {r["name"]: r for r in stored["files"]}


def _save(path: Path, judge: str, results: dict[str, Result]) -> None:
    """Save results beside those that another run over other files has saved meanwhile."""
    with _locked(path):
        _replace(path, judge, {**_load(path, judge), **results})


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, judge: str, results: dict[str, Result]) -> None:
    made = path.with_suffix(".tmp")
    made.write_text(
        json.dumps({"form": _SAVED, "judge": judge, "files": list(results.values())}, indent=1) + "\n"
    )
    made.replace(path)
