"""Full cost tables: every point of a card's template spaces, with its verdict and cost by the real judge. Writes bench/results/cost-tables-host.json.gz,
or cost-tables-h200.json.gz.

    python bench/cost_tables.py --budget-s 600
    python bench/cost_tables.py --target cuda --lanes 4 --budget-s 540

bench/ablation compares ways to search from these tables, on any machine. The cards are those of bench/cost_calls.py; each gets an equal part of what is
left of the budget. A card's points are judged in this order: the default of each family, then the points that differ from it in one parameter, then the
others in an order drawn from seed 0; of a space with more than --most points the first --most of that order are its table (`points` and `sampled` in
the file say so). With --lanes several cards are recorded side by side, a process each, which take turns where they time (bench/lanes.py): a new study's
start is mostly loading. Every verdict is written to a journal beside the file when it comes, and the file is written whole at the end of each card: killed at
any moment, the same command goes on. A row belongs to its candidate's id, source and launch spec in one hash; a row of a template that has
changed since is judged again.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import logging
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lanes
import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
UNFINISHED = 6
FLIGHT = 3  # candidates that wait for the judge, so that one is compiled while another is measured
KEPT = ("status", "gate", "cost", "seconds", "compile_ms", "usage", "twin")  # of a verdict
Row = dict[str, Any]


def points(params: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Return every point of a family's space: the default, then one parameter changed, then the others in an order of seed 0."""
    whole = [
        dict(zip([p["name"] for p in params], values, strict=True))
        for values in itertools.product(*(p["values"] for p in params))
    ]
    random.Random(0).shuffle(whole)
    default = {p["name"]: p["default"] for p in params}

    def far(point: dict[str, int]) -> int:
        return min(2, sum(point[n] != v for n, v in default.items()))

    return sorted(whole, key=far)


def facts_of(place: Any) -> dict[str, Any] | None:
    """Return what templates are told of a device; None: the core knows it of the host."""
    if not place.cuda:
        return None
    info = place.info()
    major, minor = info["capability"]
    arch = {(9, 0): "sm_90a", (10, 0): "sm_100a"}.get((major, minor), f"sm_{major}{minor}")
    return {"target": "cuda", "arch": arch, **{k: info[k] for k in ("sm_count", "l2_bytes", "smem_optin")}}


def space(card: dict[str, Any], facts: dict[str, Any] | None, most: int) -> tuple[list[Row], list[Row], int]:
    """Return the families with their parameters, the candidates of the points that are to be judged, and the number of all points."""
    from kernelforge import _core

    given = {"card": card, **({} if facts is None else {"facts": facts})}
    families = _core.call("template.render", **given)["families"]
    orders = [[(f["name"], p) for p in points(f["params"])] for f in families]
    mixed = [one for row in itertools.zip_longest(*orders) for one in row if one is not None]
    candidates = []
    for family, point in mixed[:most]:
        answer = _core.call("template.render", **given, family=family, params=point)
        candidates += answer["candidates"]
    return families, candidates, len(mixed)


def submit(study: Any, card: str, candidate: dict[str, Any], by: str) -> None:
    """Send a template's candidate to an open study. card: its id."""
    from kernelforge import _core

    _core.call(
        "store.submit",
        store=study.store,
        study=study.name,
        run=card,
        parent=0,
        candidate=candidate,
        by=by,
    )


def judged(
    name: str, card: dict[str, Any], study: Any, candidates: list[Row], until: float, keep: Any
) -> bool:
    """Have candidates judged one after the other and keep each row; return whether all were. until: on the monotonic clock."""
    waiting, ids, took = list(candidates), dict[int, str](), [1.0]
    flying: dict[str, Row] = {}
    last, whole = time.monotonic(), True
    while waiting or flying:
        while waiting and len(flying) < FLIGHT:
            if time.monotonic() + (len(flying) + 1) * statistics.median(took) > until:
                waiting.clear()
                whole = False
                break
            candidate = waiting.pop(0)
            flying[candidate["id"]] = candidate
            submit(study, card["id"], candidate, "bench")
        if not flying:
            break
        study.pump()
        for event in study.events:
            data = event["data"]
            if event["kind"] == "proposal" and data.get("candidate"):
                ids[data["seq"]] = data["candidate"]["id"]
            elif event["kind"] == "verdict" and (candidate := flying.pop(ids[data["seq"]], None)):
                verdict = data["verdict"]
                row = {k: candidate[k] for k in ("id", "family", "params")}
                row |= {k: verdict[k] for k in KEPT if verdict.get(k)} | {"wall_s": time.monotonic() - last}
                times = verdict["variants"] or []
                if times:
                    row |= {k: [v[k] for v in times] for k in ("candidate_us", "eager_us")}
                if verdict["status"] != "ok":
                    row["detail"] = verdict["detail"][:200]
                keep(name, row)
                took = [*took[-8:], time.monotonic() - last]
                last = time.monotonic()
            elif event["kind"] == "run" and data["state"] == "failed":
                raise RuntimeError(data["why"])
        study.events.clear()
    return whole


class Tables:
    """The file, and the journal of rows that are not in it yet."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path, self.journal = path, path.with_suffix(".rows")
        self.content: dict[str, Any] = {**head, "cards": []}
        self.late: dict[str, dict[str, Row]] = {}
        self.read()

    def read(self) -> None:
        """Read both, as other processes may have left them."""
        with contextlib.suppress(FileNotFoundError), gzip.open(self.path, "rt") as f:
            self.content["cards"] = json.load(f)["cards"]
        self.late = {}
        with contextlib.suppress(FileNotFoundError):
            for line in self.journal.read_text().splitlines():
                with contextlib.suppress(ValueError):  # a line that was torn
                    name, row = json.loads(line)
                    self.late.setdefault(name, {})[row["id"]] = row

    def known(self, name: str) -> dict[str, Row]:
        """Return the rows of a card by their candidates' ids."""
        there = {r["id"]: r for c in self.content["cards"] if c["name"] == name for r in c["rows"]}
        return there | self.late.get(name, {})

    def keep(self, name: str, row: Row) -> None:
        self.late.setdefault(name, {})[row["id"]] = row
        with lanes.locked(self.path):
            text = self.journal.read_bytes() if self.journal.exists() else b""
            torn = text and not text.endswith(b"\n")  # the last line of a run that was killed
            with self.journal.open("a") as f:
                f.write("\n" * bool(torn) + json.dumps([name, row]) + "\n")

    def complete(self, about: dict[str, Any], order: list[str]) -> None:
        """Put a card's rows into the file, those of `order`, which are candidates' ids."""
        with lanes.locked(self.path):
            self.read()
            self._complete(about, order)

    def _complete(self, about: dict[str, Any], order: list[str]) -> None:
        known = self.known(about["name"])
        card = {**about, "rows": [known[i] for i in order if i in known]}
        others = [c for c in self.content["cards"] if c["name"] != about["name"]]
        self.content["cards"] = sorted([*others, card], key=lambda c: c["name"])
        text = json.dumps(self.content).encode()
        part = self.path.with_suffix(".part")
        part.write_bytes(
            gzip.compress(text, mtime=0)
        )  # no time of its own: the same tables are the same file
        part.replace(self.path)
        self.late.pop(about["name"], None)
        lines = [json.dumps([n, r]) + "\n" for n, rows in self.late.items() for r in rows.values()]
        self.journal.write_text("".join(lines))
        if not lines:
            self.journal.unlink()


def record(name: str, make: Any, tables: Tables, arguments: argparse.Namespace, until: float) -> bool:
    """Record a card's table as far as the time allows; return whether it is whole."""
    import torch

    import kernelforge
    from kernelforge import _pins

    class Recorded(kernelforge.Study):
        events: list[Row]

        def _watch(self, event: Row) -> None:
            super()._watch(event)
            self.events.append(event)

    Recorded.events = []
    torch.manual_seed(0)
    model, inputs, overload = make()
    with tempfile.TemporaryDirectory(prefix="kernelforge-bench-") as folder, torch.no_grad():
        os.environ["KERNELFORGE_HOME"] = folder
        study = Recorded(model, inputs, study="bench", ops=[overload.removeprefix("aten::")], progress=False)
        try:
            job = study._job
            card = job.cards[0]
            facts = facts_of(job.place)
            families, candidates, count = space(card, facts, arguments.most)
            known = tables.known(name)
            missing = [c for c in candidates if c["id"] not in known]
            print(
                f"{name}: {card['overload']}, {count} points, {len(candidates)} in the table, {len(missing)} to be judged",
                flush=True,
            )
            whole = judged(name, card, study, missing, until, tables.keep)
            about = {
                "name": name,
                "made": resumed.now(),
                "commit": head_commit(arguments.commit),
                "env": _pins.environment(job.place),
                "card": card,
                "facts": facts,
                "families": families,
                "points": count,
                "sampled": len(candidates) < count,
                "whole": whole,
                "note": arguments.note,
            }
            tables.complete(about, [c["id"] for c in candidates])
            return whole
        finally:
            study.stop()


def head_commit(given: str | None) -> str | None:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return given or done.stdout.strip() or None


def _slug(target: str) -> str:
    if target == "host":
        return target
    import torch
    from models import slug

    return slug(torch.cuda.get_device_name())


def recorded(todo: list[str], calls: dict[str, Any], tables: Tables, arguments: argparse.Namespace) -> int:
    """Record one card after the other, each in an equal part of the time that is left; return how many are not whole."""
    from kernelforge.errors import KernelForgeError

    end, left = time.monotonic() + arguments.budget_s, 0
    for i, name in enumerate(todo):
        now = time.monotonic()
        if now >= end:
            left += 1
            continue
        try:
            left += not record(name, calls[name], tables, arguments, now + (end - now) / (len(todo) - i))
        except (KernelForgeError, RuntimeError) as e:  # this card cannot be judged; the others may
            print(f"error: {name}: {e}", file=sys.stderr, flush=True)
            left += 1
    return left


def options() -> argparse.Namespace:
    """Return the command's options, with `part`: the command of a single card, for bench/lanes.py."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=("host", "cuda"), default="host")
    parser.add_argument("--budget-s", type=float, default=600.0)
    parser.add_argument("--most", type=int, default=400, help="points of a card; more are sampled")
    parser.add_argument("--only", nargs="+", help="cards, by name")
    parser.add_argument(
        "--note", default="", help="what a reader should know, as of what else the machine did"
    )
    parser.add_argument("--commit", help="what the file says of the code; default: git's HEAD")
    parser.add_argument("--out", type=Path, help="default: bench/results/cost-tables-TARGET.json.gz")
    parser.add_argument("--lanes", type=int, default=1, help="cards side by side, which take turns (1)")
    parser.add_argument("--part-of", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lanes < 1 or (arguments.lanes > 1 and arguments.target == "host"):
        parser.error(
            f"--lanes {arguments.lanes} (expected 1 or more; on the host 1: nobody takes turns there)"
        )

    def part(card: str, seconds: float) -> list[str]:
        words = [__file__, "--target", arguments.target, "--only", card, "--budget-s", f"{seconds:.1f}"]
        words += ["--most", str(arguments.most), "--note", arguments.note, "--out", str(arguments.out)]
        words += ["--part-of", str(arguments.lanes)]
        return words + (["--commit", arguments.commit] if arguments.commit else [])

    arguments.part = part
    return arguments


def main() -> int:
    arguments = options()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    import cost_calls

    path = (arguments.out or RESULTS / f"cost-tables-{_slug(arguments.target)}.json.gz").absolute()
    if path.suffix != ".gz":
        path = path.with_name(path.name + ".gz")
    arguments.out = path
    path.parent.mkdir(parents=True, exist_ok=True)
    target = "" if arguments.target == "host" else f" --target {arguments.target}"
    command = f"python bench/cost_tables.py{target} --budget-s {arguments.budget_s:g}"
    tables = Tables(
        path, {"schema": 1, "made": resumed.now(), "command": command, "target": arguments.target}
    )
    calls = getattr(cost_calls, arguments.target)()
    todo = [n for n in calls if arguments.only is None or n in arguments.only]
    if arguments.lanes > 1:
        left = len(lanes.side_by_side(arguments.part, todo, arguments.lanes, arguments.budget_s))
        tables.read()
    else:
        if arguments.part_of:
            lanes.be_one_of(arguments.part_of)
        left = recorded(todo, calls, tables, arguments)
        if arguments.part_of:
            return UNFINISHED if left else 0
    for card in tables.content["cards"]:
        ok = [r for r in card["rows"] if r["status"] == "ok"]
        best = min((r["cost"] for r in ok), default=float("nan"))
        state = "" if card["whole"] else ", not whole"
        print(f"{card['name']:28} {len(card['rows']):5} rows, {len(ok)} ok, best cost {best:.3f}{state}")
    print(f"results: {path}")
    return UNFINISHED if left else 0


if __name__ == "__main__":
    sys.exit(main())
