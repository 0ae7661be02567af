"""A coding agent as an author: its kernels (bench/authored) go into a study by ask and tell, beside templates. Writes bench/results/author-h200.json.

    python bench/author.py --device cuda --budget-s 200
    python bench/author.py --device cpu --out build/author-host.json            the same on the host, with a few kernels

One study holds a card for each operator (author_cards.py). On each the first points of every template that applies are judged; then the agent's kernels,
in the order in which they were written: the brief is asked for below the parent that the kernel improves on, the kernel is told with its idea, and the
verdict is kept. One that answers a failure is told only if there was that failure. At the end the study confirms and serves what is
best by all of its gates, and the agent's best, the best template, eager and a copy are timed in turn (author_pairs.py).

The file is saved after each verdict and each comparison. A run that a budget cut off, or that was killed, goes on where it was: the same call on the same
commit finds what was judged in its store (`--home`). The kernels were written before the run, since the machine with the GPU has no network: what the
agent knew were the operators, the rules that a brief tells, compilers, and a run of each on the CPU (tests/test_author_corpus.py). The exit code is 6 if
something is left, 4 if a study could not be confirmed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import author_cards
import resumed
from author_cards import Attempt

ROOT = Path(__file__).resolve().parent.parent
UNFINISHED, WRONG = 6, 4
JUDGED_PART = 0.7  # of the budget, after which no candidate is begun
NO_TOKENS = "the agent's session wrote all kernels; what single ones took of it was not counted"
Row = dict[str, Any]


class Author:
    """One run: the study, its rows, and the time that is left."""

    def __init__(self, args: argparse.Namespace, result: Row, place: Any) -> None:
        self.args, self.result, self.place = args, result, place
        self.target = "cuda" if place.cuda else "host"
        self.began = time.monotonic()
        self.study = "-".join(["author", *(["small"] if args.small else []), *(args.only or [])])
        self.cards = {
            n: c for n, c in author_cards.cards(self.target).items() if not args.only or n in args.only
        }
        self.tensors = {
            name: [t.to(place.device) for t in card.tensors(not args.small)]
            for name, card in self.cards.items()
        }

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """Call every operator on its own tensors: the model of the study."""
        found, rest = list[Any](), list(tensors)
        for name, card in self.cards.items():
            count = len(self.tensors[name])
            made = card.call(*rest[:count])
            found += made if isinstance(made, tuple) else (made,)
            del rest[:count]
        return tuple(found)

    def spent(self, part: float = 1.0) -> bool:
        return time.monotonic() - self.began > part * self.args.budget_s

    def save(self) -> None:
        self.result["summary"] = summary(self.result["rows"])
        resumed.write(self.result, self.args.out)

    def row(self, name: str) -> Row:
        """Return the row of a card, which is made where there is none."""
        for row in self.result["rows"]:
            if row["card"] == name:
                return row  # type: ignore[no-any-return]
        card = self.cards[name]
        row = {"card": name, "op": card.overload, "words": card.words, "templates": [], "attempts": []}
        row |= {"seconds": 0.0, "tokens_in": None, "tokens_out": None, "cost_usd": None}
        self.result["rows"].append(row)
        return row

    def run(self) -> None:
        """Judge, confirm, compare: as far as the time allows."""
        import kernelforge
        from kernelforge.errors import VerifyFault

        inputs = tuple(t for tensors in self.tensors.values() for t in tensors)
        overloads = sorted({c.overload.removeprefix("aten::") for c in self.cards.values()})
        if not self.result["confirmed"]:
            study = kernelforge.Study(
                self.forward,
                inputs,
                study=self.study,
                ops=overloads,
                min_share=0.0,
                processes=self.args.processes,
                progress=False,
                name="author",
            )
            try:
                whole = all(self.judge(study, name) for name in self.cards)
            except BaseException:
                study.stop()
                raise
            try:
                study.close(serve=whole)
            except (
                VerifyFault
            ) as e:  # the winners are withdrawn; what they are worth one by one is still measured
                self.result["withdrawn"] = str(e)
            self.confirmed(study, whole)
            kernelforge.restore()
        for name in self.cards if self.result["confirmed"] else ():
            if not self.spent() and "against_eager" not in self.row(name):
                self.compare(name)
        left = [name for name in self.cards if "against_eager" not in self.row(name)]
        if left:
            self.result["left"] = left
        self.save()

    # ---- judging ---------------------------------------------------------------------------------------------------

    def judge(self, study: Any, name: str) -> bool:
        """Have what is left of a card judged; return whether that is all of it."""
        from cost_tables import facts_of, space

        from kernelforge.errors import RefereeFault

        card, row = self.cards[name], self.row(name)
        described = next((c for c in study._job.cards if c["overload"] == card.overload), None)
        if described is None:
            return self.gives_up(row, "the study has no card for it")
        variant = described["variants"][0]
        row |= {
            "id": described["id"],
            "bytes": variant["bytes"],
            "roof_us": variant["roof_us"],
            "call": variant["call"],
        }
        _, points, _ = space(described, facts_of(study._job.place), self.args.templates)
        known = {t["id"] for t in row["templates"]}
        points = [c for c in points if c["id"] not in known]
        if self.spent(JUDGED_PART):
            return not points and not self.untold(row)
        try:
            return self.judged(study, row, points)
        except RefereeFault as e:
            return self.gives_up(row, str(e))

    def gives_up(self, row: Row, why: str) -> bool:
        """Note that nothing of a card can be judged here; the others go on."""
        row |= {"against_eager": None, "against_template": None, "why": {"against_eager": why}}
        self.finish(row, time.monotonic())
        return True

    def judged(self, study: Any, row: Row, points: list[Row]) -> bool:
        """Have points of templates judged, then kernels as far as the time allows; return whether that is all of them."""
        from cost_tables import submit

        begin = time.monotonic()
        for candidate in points:  # all at once: one is compiled while another is measured
            submit(study, row["id"], candidate, "template")
        for candidate in points:
            answer = study.answer(row["id"], candidate["id"])
            row["templates"].append(
                {"id": candidate["id"], "family": candidate["family"], "params": candidate["params"]}
                | ended(answer)
            )
        self.finish(row, begin)
        for attempt in self.untold(row):
            if self.spent(JUDGED_PART):
                return False
            begin = time.monotonic()
            row["attempts"].append(self.told(study, row, attempt))
            self.finish(row, begin)
        return True

    def untold(self, row: Row) -> list[Attempt]:
        """Return the kernels that are still to be told, but for answers to failures that there were not."""
        ends = {a["name"]: a["status"] for a in row["attempts"]}
        return [
            a
            for a in author_cards.attempts(self.target, row["card"])
            if a.name not in ends and ends.get(a.answers) != "ok"
        ]

    def told(self, study: Any, row: Row, attempt: Attempt) -> Row:
        """Ask below a kernel's parent and tell it; return what came of it."""
        nodes = {a["name"]: a["node"] for a in row["attempts"] if a["status"] == "ok"}
        parent = nodes.get(attempt.parent, 0)
        brief = study.ask(row["id"], parent=parent)
        begin = time.monotonic()
        answer = study.tell(
            row["id"], attempt.source, attempt.spec, parent=parent, idea=attempt.idea, author="agent"
        )
        return {
            "name": attempt.name,
            "idea": attempt.idea,
            "parent": attempt.parent if attempt.parent in nodes else None,
            "answers": attempt.answers or None,
            "told_of_parent": brief["parent"]["status"],
            "id": answer["candidate"],
            "node": answer["node"],
            **ended(answer),
            "seconds": round(time.monotonic() - begin, 2),
        }

    def finish(self, row: Row, begin: float) -> None:
        """Bring a row's sums up to date and save it."""
        row["seconds"] = round(row["seconds"] + time.monotonic() - begin, 2)
        row["made"] = resumed.now()
        row["candidates"] = len(row["attempts"])
        row["verdicts"] = counted(row["attempts"])
        for kind in ("template", "authored"):
            best = self.best(row, kind)
            row[f"best_{kind}"] = best and (best.get("name") or best["family"])
            row[f"best_{kind}_us"] = best and best["candidate_us"]
            row["eager_us"] = best["eager_us"] if best else row.get("eager_us")
        self.save()

    def best(self, row: Row, kind: str) -> Row | None:
        found = [c for c in row["attempts" if kind == "authored" else "templates"] if c["status"] == "ok"]
        return min(found, key=lambda c: c["cost"], default=None)

    # ---- confirming and comparing --------------------------------------------------------------------------------------

    def confirmed(self, study: Any, whole: bool) -> None:
        """Keep what the study found of the best of each card, by all of its gates."""
        from kernelforge import _study

        for row in self.result["rows"]:
            row["confirmed"] = None
            found = [c for c in (self.best(row, kind) for kind in ("authored", "template")) if c]
            for best in sorted(found, key=lambda c: c["cost"])[:1]:
                answer = _study.answer_of(study.name, study.store, row["id"], best["id"])
                fields = ("accepted", "decision", "ratio", "low", "high", "detail")
                samples = [{k: c[k] for k in fields} for c in answer["confirmed"]]
                row["confirmed"] = samples[-1] if samples else None
                row["served"] = answer["serves"] != []
                row["winner"] = best.get("name") or f"template {best['family']}"
        if whole and study.report is not None:
            self.result["withdrawn"] = study.report.to_dict()["withdrawn"]
        self.result["confirmed"] = whole
        self.save()

    def compare(self, name: str) -> None:
        """Time the best of both kinds, eager and a copy in turn."""
        import author_pairs
        import torch

        from kernelforge import _core, _settings

        row, store = self.row(name), str(_settings.store_path(None))
        candidates = {}
        for kind in ("template", "authored"):
            best = self.best(row, kind)
            if best is not None:
                node = _core.call(
                    "store.node", store=store, study=self.study, run=row["id"], node=best["node"]
                )
                candidates[kind] = node["candidate"]
        with torch.inference_mode():
            first = [t.clone() for t in self.tensors[name]]
            found = author_pairs.compared(
                self.cards[name], row["call"], first, row["bytes"], candidates, self.place, self.args.blocks
            )
        why = {**row.get("why", {}), **found.pop("why")}
        if "authored" not in candidates:
            why["against_eager"] = why["against_template"] = "no kernel of the agent's was right"
        elif "template" not in candidates:
            why["against_template"] = "no template serves this operator"
        row |= {"against_eager": None, "against_template": None, "against_copy": None, **found}
        row["why"] = {**why, "tokens": NO_TOKENS, "cost_usd": NO_TOKENS}
        row |= {f"best_{k}_us": found[f"{k}_us"] for k in candidates if f"{k}_us" in found}
        self.place.trim()
        self.save()
        told = " ".join(f"{k} {v['ratio']:.3f} [{v['low']:.3f}, {v['high']:.3f}]" for k, v in ratios(row))
        print(
            f"{name:20} {row['best_authored'] or '-':32} {row['best_authored_us'] or 0:9.2f} us  {told}",
            flush=True,
        )


def ratios(row: Row) -> list[tuple[str, Row]]:
    return [
        (k, row[k]) for k in ("against_eager", "against_template", "against_copy") if row.get(k) is not None
    ]


def ended(answer: Row) -> Row:
    """Return how a candidate ended, as the verdict says it: its node, status, cost and times, or the gate and the words."""
    verdict = answer["verdict"]
    found = {"node": answer["node"], "status": verdict["status"]}
    if verdict["status"] != "ok":
        return found | {"gate": verdict.get("gate"), "detail": verdict["detail"].strip()[:300]}
    times = verdict["variants"][0]
    found |= {"cost": verdict["cost"], **{k: times[k] for k in ("candidate_us", "eager_us")}}
    return found | {k: verdict[k] for k in ("usage", "twin") if verdict.get(k)}


def counted(candidates: list[Row]) -> dict[str, int]:
    """Return {status: count}; a failure's status with its gate, as `wrong_value at special`."""
    found: dict[str, int] = {}
    for c in candidates:
        key = c["status"] if not c.get("gate") else f"{c['status']} at {c['gate']}"
        found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items()))


def summary(rows: list[Row]) -> Row:
    """Return sums over the cards; cards are counted by the lower bounds of their ratios."""

    def above(field: str, least: float) -> int:
        return sum(row[field]["low"] > least for row in rows if row.get(field))

    return {
        "cards": len(rows),
        "candidates": sum(len(row["attempts"]) for row in rows),
        "verdicts": counted([a for row in rows for a in row["attempts"]]),
        "templates": sum(len(row["templates"]) for row in rows),
        "answers_to_failures": sum(bool(a["answers"]) for row in rows for a in row["attempts"]),
        "faster_than_eager": above("against_eager", 1.0),
        "faster_than_template": above("against_template", 1.0),
        "faster_than_template_by_5_percent": above("against_template", 1.05),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cuda")
    add("--budget-s", type=float, default=200.0)
    add("--out", type=Path, help="default: bench/results/author-DEVICE.json; author-host.json on the host")
    add("--home", type=Path, help="folder of store and cache (default: build/author-DEVICE)")
    add("--only", nargs="+", help="cards, by name")
    add("--templates", type=int, default=5, help="points of templates a card")
    add("--processes", type=int, default=1, help="fresh processes that serve the winners")
    add("--blocks", type=int, default=15, help="of the comparison at the end")
    add("--small", action="store_true", help="small calls, as a try: their times say nothing")
    add("--commit", help="what the result file says of the code; default: git's HEAD")
    args = parser.parse_args()

    import torch
    from models import slug

    cuda = args.device == "cuda"
    name = slug(torch.cuda.get_device_name()) if cuda else "host"
    args.out = args.out or ROOT / f"bench/results/author-{name}.json"
    os.environ["KERNELFORGE_HOME"] = str((args.home or ROOT / f"build/author-{name}").absolute())

    from kernelforge import _ext, _pins
    from kernelforge._place import place_of

    _ext.load()
    place = place_of(args.device)
    command = f"python bench/author.py --device {args.device} --budget-s {args.budget_s:g}"
    about = {
        "target": "cuda" if cuda else "host",
        "env": _pins.environment(place),
        "small": args.small,
        "only": args.only,
    }
    empty = {"confirmed": False, "beat_eager": None, "summary": {}, "rows": []}
    why = {"beat_eager": "a count over models: bench/models.py"}
    result = resumed.begin(args.out, command, args.commit, about, {**empty, "why": why})
    with torch.no_grad():
        Author(args, result, place).run()
    for key, value in result["summary"].items():
        print(f"{key:36} {value}")
    print(f"results: {args.out}")
    if result.get("withdrawn"):
        print(f"the winners were withdrawn: {result['withdrawn']}", file=sys.stderr)
        return WRONG
    return UNFINISHED if "left" in result else 0


if __name__ == "__main__":
    sys.exit(main())
