"""What the rows of bench/ops.py come to: the goals, each judged on the lower bound, and geometric means. It measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ops_cases import geomean

Row = dict[str, Any]
LEAST_ROOF_US = 2.0
LARGE_BYTES = 256e6
COPY_RATE = 0.92


@dataclass(frozen=True)
class Goal:
    """One line of the table.

    cases: their names; of a goal over all rows none.
    wanted: the bound. got: rows (those of `cases` that were measured) -> the number that is held against it, None if there is none.
    most: the bound is an upper one.
    """

    words: str
    wanted: float
    got: Callable[[Sequence[Row]], float | None]
    cases: tuple[str, ...] = ()
    most: bool = False


def counted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that geometric means are of: one ATen call that the memory bounds, alone, with a roof of 2 us or more."""
    return [
        r
        for r in rows
        if r["native"] and not r["vendor"] and r["group"] != "model" and r["roof_us"] >= LEAST_ROOF_US
    ]


def over(rows: Sequence[Row], above: str, below: str) -> list[float]:
    """Return the ratios of two columns, of rows that have both."""
    return [r[above] / r[below] for r in rows if r.get(above) and r.get(below)]


def least(rows: Sequence[Row]) -> float | None:
    return min((r["low"] for r in rows), default=None)


def mean_low(rows: Sequence[Row]) -> float | None:
    return geomean([r["low"] for r in rows])


def least_rate(rows: Sequence[Row]) -> float | None:
    """Return the least lower bound of the part of the copy's rate that was reached."""
    lows = [r["against"]["copy"]["low"] for r in rows if "copy" in r["against"]]
    return min(lows, default=None)


def below_eager(rows: Sequence[Row]) -> float | None:
    """Return how many served rows may be slower than eager."""
    return float(sum(bool(r["served"] and r["low"] and r["low"] < 1) for r in rows)) if rows else None


def below_again(rows: Sequence[Row]) -> float | None:
    """Return how many served rows were slower than eager when measured again in a fresh process; None while none was and some are still to be."""
    served = [r for r in rows if r["served"]]
    again = [r["recheck_ratio"] for r in served if r.get("recheck_ratio") is not None]
    below = float(sum(v < 1 for v in again))
    return below if again and (below or len(again) == len(served)) else None


def _both(name: str, bf16: float, f32: float, words: str = "") -> list[Goal]:
    said = words or name
    return [
        Goal(f"{said}, bf16", bf16, least, (f"{name} bfloat16",)),
        Goal(f"{said}, fp32", f32, least, (f"{name} float32",)),
    ]


def _maps(name: str, words: str, dtype: str, nchw: float, last: float) -> list[Goal]:
    short = {"bfloat16": "bf16", "float32": "fp32"}[dtype]
    return [
        Goal(f"{words}, {short} NCHW", nchw, least, (f"{name} {dtype} clFalse",)),
        Goal(f"{words}, {short} channels_last", last, least, (f"{name} {dtype} clTrue",)),
    ]


TYPES = ("bfloat16", "float32")
NORM_SHAPES = ("8666x1536", "2048x2048", "4096x4096", "32768x768")
STREAMS = (
    "gelu_tanh float32",
    *(f"{n} {d}" for n in ("add bias bcast", "masked_fill", "cumsum") for d in TYPES),
)
PLAIN = tuple(f"{n} {d} cl{last}" for n in ("add", "relu", "silu") for d in TYPES for last in (False, True))


def _norms(name: str) -> tuple[str, ...]:
    return tuple(f"{name} {s} {d}" for d in TYPES for s in NORM_SHAPES)


DEVICE: list[Goal] = [
    *_maps("groupnorm32 128x1024x1024", "group_norm 1x128x1024x1024", "bfloat16", 25, 32),
    Goal("group_norm 1x512x128x128, bf16 NCHW", 17, least, ("sd35 group_norm bfloat16",)),
    *_both("softmax 4096x8192", 3.5, 1.95),
    *_both("softmax 64x262144", 3.6, 3.2),
    *_both("softmax dim1", 4.4, 2.7, "softmax over dim 1 of 2x16x1024x1024"),
    *_maps("batchnorm", "batch_norm eval", "bfloat16", 2.35, 1.55),
    *_maps("maxpool3s2", "max_pool2d 3x3 s2 with indices", "bfloat16", 3.2, 3.5),
    *_maps("maxpool3s2", "max_pool2d 3x3 s2 with indices", "float32", 2.05, 2.5),
    *_maps("adaptive_avgpool7", "adaptive_avg_pool2d(7)", "bfloat16", 7, 12),
    *_maps("adaptive_avgpool7", "adaptive_avg_pool2d(7)", "float32", 4, 7),
    *_maps("adaptive_avgpool1", "adaptive_avg_pool2d(1)", "bfloat16", 3.5, 2.2),
    *_maps("adaptive_avgpool1", "adaptive_avg_pool2d(1)", "float32", 3.5, 2.2),
    *_both("cumsum", 24, 11.5, "cumsum of rows of 256"),
    *_both("sum last8", 10, 5.5, "sum of a last axis of 8"),
    *_both("transpose copy", 6.1, 3.4, "transpose"),
    *_maps("upsample2", "upsample, nearest, 2x", "bfloat16", 3.4, 9),
    *_maps("upsample2", "upsample, nearest, 2x", "float32", 2.1, 5),
    Goal("topk 8 of 256, 4,096 rows", 8, least, tuple(f"topk8 {d}" for d in TYPES)),
    Goal("pointwise and cumsum of 256 MB or more: part of the copy's rate", COPY_RATE, least_rate, STREAMS),
    Goal("layer_norm, geometric mean", 1.65, mean_low, _norms("layernorm")),
    Goal("rms_norm, geometric mean", 1.10, mean_low, _norms("rmsnorm")),
    Goal("contiguous add, relu, silu served below eager", 0, below_eager, PLAIN, most=True),
    Goal(
        "time over the copy's, geometric mean of native cases with a roof of 2 us or more",
        1.12,
        lambda rows: geomean(over(counted(rows), "kernelforge_us", "copy_us")),
        most=True,
    ),
    Goal(
        "Inductor max-autotune's time over ours, the same cases",
        1.10,
        lambda rows: geomean(over(counted(rows), "autotune_us", "kernelforge_us")),
    ),
    Goal("served cases below eager when measured again", 0, below_again, most=True),
]

HOST: list[Goal] = [
    Goal("max_pool2d 3x3 s2, fp32 NCHW", 8, least, ("maxpool3s2 8x64x112x112 float32 NCHW",)),
    Goal("avg_pool2d, fp32 NCHW", 5, least, ("avgpool3s2 8x64x112x112 float32 NCHW",)),
    Goal("adaptive_avg_pool2d(7), fp32 NCHW", 5, least, ("adaptive_avgpool7 8x64x112x112 float32 NCHW",)),
    Goal("rms_norm, bf16, inference_mode", 4, least, ("rmsnorm 2048x4096 bfloat16",)),
    Goal("softmax over dim 0, fp32", 3, least, ("softmax dim0 2048x2048 float32",)),
    Goal("transpose, fp32", 2, least, ("transpose copy 4096x4096 float32",)),
    Goal("served cases below eager", 0, below_eager, most=True),
    Goal("served cases below eager when measured again", 0, below_again, most=True),
]


def goals(target: str) -> list[Goal]:
    return HOST if target == "host" else DEVICE


def order(target: str, names: Sequence[str]) -> list[str]:
    """Return case names in the order in which they are measured: those of goals first, as the goals stand, then the others."""
    first = [n for g in goals(target) for n in g.cases]
    known = set(names)
    return [n for n in dict.fromkeys([*first, *names]) if n in known]


def judge(goal: Goal, rows: Sequence[Row], cases: int) -> dict[str, Any]:
    """Return one line of the table: {"goal", "wanted", "at_most", "got", "met", "measured", "of"} and, where they are named, "cases"; `met` is None until all of its cases are measured.

    cases: how many there are altogether, for goals over all rows.

    A bound that is missed already is missed, whatever is still to come.
    """
    chosen = [r for r in rows if not goal.cases or r["case"] in goal.cases]
    got = goal.got(chosen)
    good = got is not None and (got <= goal.wanted if goal.most else got >= goal.wanted)
    lasting = goal.got in (least, least_rate, below_eager, below_again)  # more rows cannot make it better
    of = len(goal.cases) or cases
    whole = len(chosen) == of
    met = None if got is None or (not whole and (good or not lasting)) else good
    return {
        "goal": goal.words,
        "wanted": goal.wanted,
        "at_most": goal.most,
        "got": None if got is None else round(got, 3),
        "met": met,
        "measured": len(chosen),
        "of": of,
        **({"cases": list(goal.cases)} if goal.cases else {}),
    }


def summary(target: str, rows: Sequence[Row], cases: int) -> dict[str, Any]:
    """Return the geometric means and the goals of the rows that were measured, of so many cases."""
    whole = [r for r in rows if r.get("eager_us") and r.get("copy_us")]
    native = counted(whole)
    before = [r for r in native if r["group"] == "first"]

    def means(chosen: Sequence[Row]) -> dict[str, Any]:
        found = {
            f"{name}_over_copy": geomean(over(chosen, f"{name}_us", "copy_us"))
            for name in ("eager", "inductor", "autotune", "kernelforge")
        }
        found["autotune_over_kernelforge"] = geomean(over(chosen, "autotune_us", "kernelforge_us"))
        found["eager_over_kernelforge"] = geomean(over(chosen, "eager_us", "kernelforge_us"))
        return {"rows": len(chosen)} | {k: None if v is None else round(v, 3) for k, v in found.items()}

    return {
        "measured": len(whole),
        "served": sum(bool(r["served"]) for r in whole),
        "native": means(native),
        "first": means(before),
        "goals": [judge(g, whole, cases) for g in goals(target)],
    }


def line(row: Row) -> str:
    """Return a row in one line."""
    if row["eager_us"] is None:
        return f"{row['case'][:52]:52} {row['why']['eager_us']}"

    def us(key: str) -> str:
        return f"{row[key]:10.2f}" if row.get(key) else f"{'-':>10}"

    keys = ("eager_us", "inductor_us", "autotune_us", "tuned_us", "kernelforge_us", "copy_us", "roof_us")
    gain = f"{row['low']:6.2f}x" if row["served"] else "  eager"
    return f"{row['case'][:52]:52}{''.join(map(us, keys))} {gain}"


def goals_told(result: dict[str, Any]) -> str:
    """Return the goals as lines."""
    marks = {True: "met", False: "missed", None: "open"}
    lines = []
    for g in result["summary"]["goals"]:
        got = "-" if g["got"] is None else f"{g['got']:g}"
        sign = "<=" if g["at_most"] else ">="
        lines.append(f"{marks[g['met']]:7}{got:>8} {sign} {g['wanted']:<6g}{g['goal']}")
    return "\n".join(lines)
