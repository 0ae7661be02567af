"""One captured card of bench/captured.py: which kernels of bench/authored fit it, its search in a study of its own, and what came of that.

It owns a card. It refuses models, files and the order of cards: those are bench/captured.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Below this room a study with a least gain would not begin. But a profile times a model's calls on what the cache holds, and a candidate on what it does not.
AT_FLOOR = 0.02
NO_MODEL = "a count of operators alone does not time the model"
Row = dict[str, Any]


# ---- kernels of bench/authored -------------------------------------------------------------------------------------


def _argument(call: Row, name: str) -> Row:
    return next(a for a in call["args"] if a["name"] == name)


def _group_norm(call: Row) -> Row | None:
    x, weight = _argument(call, "input"), _argument(call, "weight")
    if (x["dtype"], weight["kind"]) != ("bfloat16", "tensor"):
        return None
    groups = _argument(call, "group")["value"]
    return {
        "AREA": str(_argument(call, "HxW")["value"]),
        "CHANNELS": str(_argument(call, "C")["value"] // groups),
        "EPS": f"{_argument(call, 'eps')['value']!r}f",
    }


def _one_row(call: Row) -> Row | None:
    x, weight = _argument(call, "self"), _argument(call, "mat2")
    rows, length = x["sizes"]
    fits = rows == 1 and length % 8 == 0 and weight["strides"] == [1, length] and x["dtype"] == "bfloat16"
    return {"LENGTH": str(length)} if fits else None


# Overload -> the folder of its kernels, and the constants that make them fit a call; None: they do not.
AUTHORED: dict[str, tuple[str, Callable[[Row], Row | None]]] = {
    "aten::native_group_norm": ("group_norm", _group_norm),
    "aten::mm": ("linear_of_one_row", _one_row),
}


SIZES = {"AREA", "CHANNELS", "EPS", "LENGTH"}  # constants that a call gives; the others are the kernel's own


def authored(card: Row) -> list[tuple[str, Row]]:
    """Return the kernels of bench/authored that fit all variants of a card, as (source, spec with `idea`).

    A size that differs between variants is no constant: then only kernels that take it as an argument fit.
    """
    import author_cards

    folder, constants = AUTHORED.get(card["overload"], ("", lambda _: None))
    fits = [constants(v["call"]) for v in card["variants"]]
    if card["layout"] != "contiguous" or None in fits:
        return []
    given = {k: v for k, v in fits[0].items() if all(f[k] == v for f in fits)}
    found = []
    for a in author_cards.attempts(card["target"], folder):
        if SIZES & a.spec["constants"].keys() <= given.keys():
            of_card = {k: given.get(k, v) for k, v in a.spec["constants"].items()}
            found.append((a.source, {**a.spec, "constants": of_card, "idea": f"authored {a.name}"}))
    return found


# ---- one card --------------------------------------------------------------------------------------------------------


def search(job: Any, card: Row, study: str, candidates: int, seconds: float) -> Row:
    """Search a card of an open job's profile in a study of its own; return the study's run, as the store tells it."""
    from kernelforge import _search, _studies
    from kernelforge._callers import Callers
    from kernelforge.referee import Referee

    kernels = iter(authored(card))

    def author(_: Row) -> tuple[str, Row] | None:
        return next(kernels, None)

    callers = Callers([author] if authored(card) else [])
    with Referee(job.profile, place=job.place) as referee:

        def alone(task: Row) -> Row:
            if task["kind"] == "confirm_model":
                return {"on_ms": [], "off_ms": [], "status": "rejected", "detail": NO_MODEL}
            return referee.execute(task)

        request = {
            "store": job.store,
            "study": study,
            "target": job.place.target,
            "model": job.asked.name,
            "cards": [{**card, "share": 1.0}],  # what it gains is a part of its own time
            "pins": job.pins,
            "settings": {
                **job._settings(),
                "candidates": candidates,
                "seconds": seconds,
                "min_gain": 0.01 if room(card) >= AT_FLOOR else 0.0,
            },
            "authors": [{"name": name} for name in callers.names],
        }
        with _search.opened(study, "study.start", **request):
            _search.drive(study, callers.beside(alone), job.bar)
    run: Row = _studies.load(study, job.store)["runs"][0]
    return run


def room(card: Row) -> float:
    """Return the part of a card's time that is left to gain when its bytes move as fast as a copy's, by the profile."""
    eager = sum(v["calls"] * v["eager_us"] for v in card["variants"])
    return 1 - sum(v["calls"] * min(v["roof_us"], v["eager_us"]) for v in card["variants"]) / eager


def told(card: Row, run: Row) -> Row:
    """Return what a run says of its card: times of a forward's calls of it, and the best candidate."""
    from kernelforge import _studies
    from kernelforge._report import rows_of

    best: dict[str, Row] = {}  # by variant
    for c in run["confirmed"]:
        before = best.get(c["variant"])
        if c["samples"] and (before is None or c["low"] > before["low"]):
            best[c["variant"]] = c
    won = [c for c in best.values() if c["low"] > 1]
    plans = [{"card": card["id"], "variant": c["variant"], "evidence": c} for c in won]
    (times,) = rows_of([card], plans, {card["id"]: _studies.verdicts(run)}, {})
    nodes = {n["node"]: n for n in run["nodes"] if n["node"] != 0}
    right = sorted((n for n in nodes.values() if n["status"] == "ok"), key=lambda n: n["cost"])
    saving = {v["id"]: v["calls"] * v["eager_us"] for v in card["variants"]}
    chosen = max(
        won, key=lambda c: saving.get(c["variant"], 0) * (1 - 1 / max(c["ratio"], 1e-9)), default=None
    )
    node = nodes[chosen["node"]] if chosen else (right[0] if right else None)
    ended = run["why"].replace("of the model", "of the card")  # the study knows nothing else
    # Finalists whose confirmation found them wrong are in `confirmed`, without samples.
    open_ = (
        "no time was left to confirm its best candidate"
        if not run["confirmed"] and right[:1] and right[0]["cost"] < 1
        else ""
    )
    measured = max(best.values(), key=lambda c: c["low"], default=None)
    return {
        "candidates": len(nodes),
        "verdicts": times["verdicts"],
        "best": node and (node["family"] or node["change"]),
        "best_by": node and ("template" if node["family"] else "authored"),
        "best_cost": right[0]["cost"] if right else None,
        "eager_us": times["eager_us"],
        "ours_us": times["kernelforge_us"],
        **{k: times[k] for k in ("ratio", "low", "high")},
        "variants_beaten": len(won),
        "served": any(c["accepted"] for c in won),
        "beat_eager": None if open_ else bool(won) and times["low"] > 1,
        "why": "" if won else open_ or (measured["detail"] if measured else ended),
        "ended": ended,
    }


def words(card: Row) -> str:
    """Return a card's first variant in words: `bfloat16 1x512x128x128 and 5 more`."""
    tensors: list[Row] = []
    for a in card["variants"][0]["call"]["args"]:
        tensors += a["items"] if a["kind"] == "tensors" else [a] if a["kind"] == "tensor" else []
    more = len(card["variants"]) - 1
    first = f"{tensors[0]['dtype']} {'x'.join(map(str, tensors[0]['sizes']))}" if tensors else ""
    return first + (f" and {more} more" if more else "")


def in_order(cards: list[Row]) -> list[Row]:
    """Return cards, the largest share first, but those first that are their operator's largest."""
    shares, largest = sorted(cards, key=lambda c: -c["share"]), dict[str, Row]()
    for card in shares:
        largest.setdefault(card["overload"], card)
    return [*largest.values(), *(c for c in shares if c not in largest.values())]
