"""How many of the kernels that models run beat eager, counted as the Kernel Forge paper counts (14 over four models): bench/results/captured-h200.json.

    python bench/captured.py --lanes 3 --tier 1 --budget-s 540  all models, three at a time; again to go on
    python bench/captured.py --only qwen35 --budget-s 300
    python bench/captured.py --device cpu --tiny --out build/captured-host.json       a try on a processor

Of each model of bench/models.py, the cards of kernelforge's own profile with at least --min-share of the operators' time are searched, each as a study of its
own: at most 50 candidates, templates and the kernels of bench/authored together. So what a card's budget buys depends on no other card, and its gain is
measured on the operator alone; what the model gains is for bench/models.py. A row is a card. `beat_eager` says that the lower bound of eager / ours, confirmed on
fresh data by the real dispatch path, is above 1; `served`, that a variant's is above the judge's margin too, so that a study would serve it. Of a card's variants
those that do not beat eager count as eager. An operator beats eager in a model if one of its cards does: the paper's kernels are operators.

Operators' largest cards come first, then the others; each card gets an equal part of the time that is left. The file is saved after each row, and the same
command on the same commit goes on with the cards that have no row. --lanes has several models searched side by side, a process each, which take turns
where they time (bench/lanes.py): a card's own study starts and prepares for seconds. The exit code is 6 if some cards have no row.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import captured_card
import lanes
import resumed
from models import MODELS, RESULTS, TITLES, slug

ROOT = Path(__file__).resolve().parent.parent
UNFINISHED = 6
CANDIDATES, LEAST_SHARE = 50, 0.001  # the paper's; its smallest kernel that counts had 0.12 % of the time
LEAST_S, MOST_S = 6.0, 60.0  # of a card
MOST_LATE_S = (
    12.0  # of a card beyond its own: one that once took longer does not keep the others from being begun
)
ABOUT = ("device", "torch", "candidates", "min_share", "tiny")  # what tells results apart, beside the commit
PAPER = {  # the paper's models, by ours
    "resnet50": "ResNet-50",
    "sd35": "SD 3.5 Medium",
    "vae": "SD 3.5 Medium",
    "gemma4": "Gemma 4 E2B",
    "gemma4_token": "Gemma 4 E2B",
    "qwen35": "Qwen 3.5 35B-A3B",
}
PAPER_COUNT = 14
Row = dict[str, Any]


# ---- the count --------------------------------------------------------------------------------------------------------


class Count:
    """One run: the result, and the time that is left."""

    def __init__(self, args: argparse.Namespace, result: Row) -> None:
        self.args, self.result, self.began = args, result, time.monotonic()
        self.names = [n for n in MODELS if not args.only or n in args.only]
        self.late = list[float]()  # seconds that cards took beyond their own

    def left(self) -> float:
        return float(self.args.budget_s - (time.monotonic() - self.began))

    def save(self) -> None:
        """Save what there is of the models of this run, beside what other processes have saved of theirs meanwhile."""
        with lanes.locked(self.args.out):
            there = resumed.of_the_same(self.args.out, self.result, ABOUT)
            self.result |= merged(self.result, there or self.result, self.names)
            for key in ("left", "missing", "failed"):  # what is not there is none
                if not self.result[key]:
                    del self.result[key]
            told = summary(self.result)
            self.result |= {"summary": told}
            self.result |= {"beat_eager": {n: m["cards_beat_eager"] for n, m in told["models"].items()}}
            resumed.write(self.result, self.args.out)

    def todo(self) -> list[str]:
        return [n for n in self.names if not self.result["models"].get(n, {}).get("done")]

    def run(self) -> None:
        from kernelforge.errors import EnvironmentFault, KernelForgeError, StoreFault

        todo, errors = self.todo(), {"missing": dict[str, str](), "failed": dict[str, str]()}
        for i, name in enumerate(todo):
            if self.left() < LEAST_S:
                break
            try:
                self.model(name, self.left() / (len(todo) - i))
            except StoreFault:
                raise
            except (KernelForgeError, RuntimeError) as e:  # the others may be made, and be judged
                print(f"error: {name}: {e}", file=sys.stderr, flush=True)
                lacks = isinstance(e, EnvironmentFault)  # its library is not here
                errors["missing" if lacks else "failed"][name] = str(e).splitlines()[0]
        self.result |= errors
        self.save()

    def side_by_side(self) -> None:
        """Have a process for each model, as far as the seconds go."""
        a = self.args
        same = ["--device", a.device, "--candidates", str(a.candidates), "--min-share", str(a.min_share)]
        same += ["--out", str(a.out), "--home", str(a.home), "--part-of", str(a.lanes)]
        same += ["--tiny"] if a.tiny else []
        same += ["--commit", a.commit] if a.commit else []
        same += ["--tier", str(a.tier)] if a.tier is not None else []

        def command(name: str, seconds: float) -> list[str]:
            return [__file__, "--only", name, "--budget-s", f"{seconds:.1f}", *same]

        self.save()  # on a machine that is taken away at once there is a file that says what is left
        lanes.side_by_side(command, self.todo(), a.lanes, self.left())
        there = resumed.of_the_same(a.out, self.result, ABOUT)
        self.result.clear()
        self.result |= there

    def model(self, name: str, seconds: float) -> None:
        """Profile a model and search its cards, as far as the seconds allow."""
        import torch

        from kernelforge import _authors, _ext, _settings
        from kernelforge._asked import Asked
        from kernelforge._job import Job
        from kernelforge._state import kept

        until = time.monotonic() + seconds
        gc.collect()  # the model before is gone, but for cycles
        model, inputs, note = MODELS[name](self.args.device, self.args.tiny)
        note += ", every size made small" if self.args.tiny else ""
        asked = Asked(
            study=f"captured-{name}",
            store=_settings.store_path(None),
            ops="auto",
            min_share=self.args.min_share,
            candidates=self.args.candidates,
            max_seconds=None,
            seed=0,
            tier=self.args.tier,
            review=False,
            exact=False,
            processes=0,
            out=None,
            fresh=False,
            progress=False,
            name=f"{name}{'-tiny' if self.args.tiny else ''}",
            note=note,
            authors=_authors.NONE,
        )
        job = Job(model, inputs, asked)
        with torch.no_grad(), _ext.measuring(), job.place.current(), kept(model, inputs, job.place):
            job.begin()
            self.profiled(name, job, note)
            done = {r["card"] for r in self.result["rows"] if r["model"] == name}
            open_cards = captured_card.in_order([c for c in job.cards if c["id"] not in done])
            for i, card in enumerate(open_cards):
                box = box_of(until - time.monotonic(), len(open_cards) - i, self.late)
                if box is None:
                    return self.save()
                self.searched(name, job, card, box)
                job.profile.forget_payloads({c["id"] for c in open_cards[i + 1 :]})
        self.result["models"][name]["done"] = True
        self.save()

    def profiled(self, name: str, job: Any, note: str) -> None:
        """Note what a profile says of a model, and rows for the cards that are not searched."""
        for card in job.cards:
            if card["id"] in job.open and not captured_card.authored(card):
                job.reasons[card["id"]] = "no template serves it"
        job.cards = [c for c in job.cards if c["id"] not in job.reasons]
        known = {r["card"] for r in self.result["rows"] if r["model"] == name}
        for card in job.profile.cards:
            why = job.reasons.get(card["id"])
            if why and card["id"] not in known:
                counts = False if why == "no template serves it" else None  # None: it is not counted at all
                self.result["rows"].append(
                    {**self.about(name, card), "candidates": 0, "beat_eager": counts, "why": why}
                )
        self.result["models"][name] = {
            "title": TITLES[name],
            "note": note,
            "paper": PAPER[name],
            "forward_ms": job.profile.forward_ms,
            "operator_ms": job.profile.operator_ms,
            "hooked": job.profile.hooked,
            "captured": len(job.profile.cards),
            "to_search": len(job.cards),
            "done": False,
        }
        self.save()

    def about(self, name: str, card: Row) -> Row:
        eager = sum(v["calls"] * v["eager_us"] for v in card["variants"])
        about = {
            "model": name,
            "card": card["id"],
            "op": card["overload"],
            "words": captured_card.words(card),
        }
        about |= {"layout": card["layout"], "share": card["share"], "variants": len(card["variants"])}
        about |= {"calls": sum(v["calls"] for v in card["variants"]), "eager_us": eager, "served": False}
        return about

    def searched(self, name: str, job: Any, card: Row, seconds: float) -> None:
        from kernelforge.errors import KernelForgeError, StoreFault

        began = time.monotonic()
        row = self.about(name, card)
        try:
            study = f"captured-{name}{'-tiny' if self.args.tiny else ''}-{card['id']}"
            row |= captured_card.told(
                card, captured_card.search(job, card, study, self.args.candidates, seconds)
            )
        except StoreFault:
            raise
        except KernelForgeError as e:  # this card cannot be judged; the others may
            row |= {"candidates": 0, "beat_eager": None, "why": str(e).splitlines()[0]}
        row["seconds"] = round(time.monotonic() - began, 2)
        self.late.append(row["seconds"] - seconds)
        row["made"] = resumed.now()
        self.result["rows"].append(row)
        self.save()
        low = f"{row['low']:.3f}" if row.get("low") else "-"
        print(
            f"{name:13} {row['op']:32} {row['words']:42} {row['share']:6.1%} {row['candidates']:3} tried, at least {low}  {row.get('best') or ''}",
            flush=True,
        )


def box_of(left: float, cards: int, late: Sequence[float]) -> float | None:
    """Return the seconds of the next of so many cards: an equal part of what is left, without what most took beyond theirs; None where it would end too late.

    late: seconds that cards before took beyond theirs, those that had less to do below zero.

    Example:
        >>> box_of(100.0, 4, []), box_of(100.0, 4, [5.0, -20.0, 9.0]), box_of(100.0, 40, [5.0]), box_of(12.0, 1, [7.0])
        (25.0, 20.0, 6.0, None)
    """
    most = min(max([0.0, *late]), MOST_LATE_S)
    if left - most < LEAST_S:
        return None
    usual = max(statistics.median(late), 0.0) if late else 0.0
    return min(MOST_S, max(LEAST_S, left / cards - usual))


def merged(ours: Row, there: Row, names: Sequence[str]) -> Row:
    """Return models, rows, and what is left, missing or failed: of these models as we have them, of the others as the file has them."""

    def of(key: str) -> Row:
        others = {n: v for n, v in there.get(key, {}).items() if n not in names}
        return others | {n: v for n, v in ours.get(key, {}).items() if n in names}

    models, order = of("models"), list(MODELS)
    rows = [r for r in there["rows"] if r["model"] not in names]
    rows += [r for r in ours["rows"] if r["model"] in names]
    to_do = {*names, *there.get("left", ())}
    return {
        "models": {n: models[n] for n in order if n in models},
        "rows": sorted(rows, key=lambda r: order.index(r["model"])),
        "left": [n for n in order if n in to_do and not models.get(n, {}).get("done")],
        **{key: of(key) for key in ("missing", "failed")},
    }


def summary(result: Row) -> Row:
    """Return the counts of each model of the paper, and of all.

    Cards that are too small, or that could not be judged, are captured, not counted. An operator beats eager in a model if one of its cards does.
    """
    found: dict[str, Row] = {}
    for name, model in result["models"].items():
        rows = [r for r in result["rows"] if r["model"] == name]
        counted = [r for r in rows if r["beat_eager"] is not None]
        won = [r for r in counted if r["beat_eager"]]
        one = found.setdefault(
            model["paper"],
            {"captured": 0, "counted": 0, "cards_beat_eager": 0, "served": 0, "candidates": 0}
            | {"operators": set(), "operators_beat_eager": set(), "done": True},
        )
        one["captured"] += model["captured"]
        one["counted"] += len(counted)
        one["cards_beat_eager"] += len(won)
        one["served"] += sum(r["served"] for r in rows)
        one["candidates"] += sum(r["candidates"] for r in rows)
        one["operators"] |= {r["op"] for r in counted}
        one["operators_beat_eager"] |= {r["op"] for r in won}
        one["done"] = one["done"] and model["done"]
    for one in found.values():
        names = sorted(one["operators_beat_eager"])
        one |= {
            "operators": len(one["operators"]),
            "operators_beat_eager": len(names),
            "operators_that_beat_eager": names,
        }
    sums = ("captured", "counted", "cards_beat_eager", "served", "candidates")
    total = {k: sum(one[k] for one in found.values()) for k in (*sums, "operators", "operators_beat_eager")}
    return {"models": found, "all": total, "paper": PAPER_COUNT}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--budget-s", type=float, default=540.0)
    add("--only", nargs="+", choices=MODELS, help="models")
    add("--candidates", type=int, default=CANDIDATES, help="a card, at most")
    add("--min-share", type=float, default=LEAST_SHARE, help="of the operators' time")
    add("--device", choices=("cpu", "cuda"), default="cuda")
    add("--tiny", action="store_true", help="small models, as a try: their times say nothing")
    add("--out", type=Path, help="default: bench/results/captured-DEVICE.json")
    add("--home", type=Path, help="folder of store and cache (default: build/captured-DEVICE)")
    add("--commit", help="what the result file says of the code; default: git's HEAD")
    add(
        "--tier",
        type=int,
        help="of the sandbox, by number: 1 leaves compute-sanitizer out, which takes seconds",
    )
    add("--lanes", type=int, default=1, help="models side by side, which take turns (1)")
    add("--part-of", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.lanes < 1 or (args.lanes > 1 and args.device == "cpu" and not args.tiny):
        parser.error(f"--lanes {args.lanes} (expected 1 or more; on the host 1: nobody takes turns there)")
    logging.basicConfig(
        format="%(relativeCreated)8.0f ms  %(message)s", level=logging.WARNING, stream=sys.stderr
    )
    import torch

    name = slug(torch.cuda.get_device_name()) if args.device == "cuda" else "host"
    args.out = args.out or RESULTS / f"captured-{name}.json"
    args.home = (args.home or ROOT / f"build/captured-{name}").absolute()
    os.environ["KERNELFORGE_HOME"] = str(args.home)
    if args.part_of:
        lanes.be_one_of(args.part_of)

    from kernelforge import _ext, _pins
    from kernelforge._place import place_of

    _ext.load()
    command = resumed.said("captured", sys.argv[1:])
    env = _pins.environment(place_of(args.device))
    found = {**env, **vars(args)}
    about = {k: found[k] for k in ABOUT}  # another count of cores is no other result
    result = resumed.begin(args.out, command, args.commit, about, {"env": env, "models": {}, "rows": []})
    count = Count(args, result)
    if args.lanes > 1:
        count.side_by_side()
    else:
        count.run()
    if args.part_of:
        return UNFINISHED if count.todo() else 0
    print(json.dumps(result["summary"]["all"]))
    for model, m in result["summary"]["models"].items():
        print(
            f"{model:18} {m['cards_beat_eager']} of {m['counted']} cards, {m['operators_beat_eager']} of {m['operators']} operators beat eager{'' if m['done'] else ' (not done)'}"
        )
    print(f"results: {args.out}")
    return UNFINISHED if "left" in result else 0


if __name__ == "__main__":
    sys.exit(main())
