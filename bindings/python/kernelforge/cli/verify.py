"""`kernelforge verify PACK`: correctness and paired timing again, on this machine, in a fresh process. Exit code 4 if anything fails."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import _settings
from .._report import table
from . import options


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "pack",
        metavar="PACK|STUDY|MODEL",
        help="folder of a pack, or a study (or a model and its options) whose pack lies in the packs folder",
    )
    options.add_shape(p)
    p.add_argument("--seed", type=options.seed, default=0)
    p.add_argument("--blocks", type=options.positive, default=40, help="pairs of timings a plan (40)")
    p.add_argument(
        "--plan-s",
        type=options.positive_float,
        default=600.0,
        metavar="SECONDS",
        help="time that a plan may take before it counts as hanging (600)",
    )
    options.add_trust(p)
    p.add_argument(
        "--rebuild",
        action="store_true",
        help="compile every source again first and compare the code, to the bit where compiler and machine are the pack's",
    )
    p.add_argument(
        "--accept",
        action="store_true",
        help="if everything passes, write this machine's pins into the pack, so that it is served here",
    )


def run(args: argparse.Namespace) -> int:
    from .._verify import verify

    folder = Path(args.pack)
    packs = _settings.read().pack_folder
    if not folder.exists():
        named = packs / args.pack
        folder = named if named.is_dir() else packs / str(options.study_of(args.pack, args))
        folder = folder if folder.is_dir() else Path(args.pack)
    found = verify(
        folder,
        trust=args.trust,
        rebuild=args.rebuild,
        seed=args.seed,
        blocks=args.blocks,
        accept=args.accept,
        plan_seconds=args.plan_s,
    )
    rows = []
    for p in found["plans"]:
        numbers = (
            [
                f"{p['eager_us']:.1f}",
                f"{p['kernelforge_us']:.1f}",
                f"{p['low']:.2f} ({p['ratio']:.2f})",
            ]
            if p["ratio"]
            else ["", "", ""]
        )
        rows.append(
            [
                p["id"],
                p["overload"].removeprefix("aten::"),
                *numbers,
                p["status"]
                + (f": {p['detail']}" if p["detail"] else "")
                + (" (proposed, not served)" if p["state"] == "proposed" else ""),
            ]
        )
    lines = table(
        ["plan", "operator", "eager us", "kernelforge us", "at least (median)", "verdict"],
        rows,
        right=(2, 3),
    )
    lines += [
        "",
        *(
            f"pin {name}: judged with `{theirs}`, here `{here}`"
            for name, (theirs, here) in found["pins"].items()
        ),
    ]
    if "rebuild" in found:
        lines += _rebuilt(found["rebuild"])
    ok = sum(p["status"] == "ok" for p in found["plans"])
    lines.append(
        f"{ok} of {len(found['plans'])} plans passed: outputs as eager's, none slower than eager"
        if found["passed"]
        else f"failed: {len(rows) - ok} of {len(rows)} plans"
    )
    if found["pins"] and found["passed"]:
        lines.append(
            "the pack is served here now" if found.get("accepted") else "add --accept to have it served here"
        )
    options.emit(args, found, "\n".join(lines))
    return 0 if found["passed"] else 4


def _rebuilt(found: dict[str, Any]) -> list[str]:
    equal = sum(p["status"] == "equal" for p in found["plans"])
    lines = [
        f"rebuilt: the code of {equal} of {len(found['plans'])} plans is, bit for bit, that of its source"
    ]
    return lines + [f"plan {p['id']} is not compared: {p['detail']}" for p in found["plans"] if p["detail"]]
