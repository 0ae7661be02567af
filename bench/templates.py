"""Where every CUDA template stands: device time against eager and against a copy of the bytes. Writes bench/results/templates-h200.json.

    python bench/templates.py --device 0 --budget-s 300
    python bench/templates.py --device 0 --check            # correctness instead, by the referee's rules, over the sites of the tests

A child process works through the list and writes a line after each row; when a candidate brings it down, the row says so and a new child goes on
behind it. Times are of calls through the dispatcher, replayed as a graph over rotating arguments that the cache does not hold, eager and plan in
turn (kernelforge/referee/ruler.py). A run that was ended early is taken up where it stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import resumed

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench/results/templates-h200.json"
BLOCKS = 7  # of each side
POOL = 3  # the arguments of a round, in caches

Row = dict[str, Any]


# ---- the child ------------------------------------------------------------------------------------------------------------------------


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def work(arguments: argparse.Namespace) -> None:
    """Work through the list from --first on, a line of JSON for each row; `next` and `doing` say what a crash was about."""
    sys.path.insert(0, str(ROOT / "bindings/python/tests"))
    import torch

    from kernelforge import _ext
    from kernelforge._place import Place

    _ext.load()
    torch.cuda.set_device(arguments.device)
    place = Place(arguments.device)
    (check_all if arguments.check else time_all)(place, arguments)


def check_all(place: Any, arguments: argparse.Namespace) -> None:
    import checking
    import rendering

    for number, site in enumerate(rendering.sites()):
        if number < arguments.first or arguments.only not in f"{number}-{site.name}":
            continue
        say(next=number, site=f"{number}-{site.name}")
        try:
            rows = checking.check(
                site,
                place,
                site.points if arguments.points == "default" else arguments.points,
                lambda w: say(doing=w),
                align=16 * (number % 2),
            )
        except checking.Refused as e:
            say(site=f"{number}-{site.name}", family="-", status="refused", detail=str(e)[:500])
            continue
        except Exception as e:
            if "CUDA error" in str(e) or "illegal" in str(e) or getattr(e, "code", None) == 11:
                raise  # the context is lost: this child is of no more use
            say(
                site=f"{number}-{site.name}",
                family="-",
                status="error",
                detail=f"{type(e).__name__}: {e}"[:1500],
            )
            continue
        if not rows:
            say(site=f"{number}-{site.name}", family="-", status="unserved", detail="no family applies")
        for row in rows:
            say(site=f"{number}-{site.name}", **row)


def time_all(place: Any, arguments: argparse.Namespace) -> None:
    import torch
    from template_calls import timed

    import rendering
    from kernelforge.referee.ruler import calls_of

    copy_gbs = copy_rate(place)
    say(copy_gbs=copy_gbs)
    l2 = rendering.facts(place)["l2_bytes"]
    for number, (name, (overload, make)) in enumerate(timed().items()):
        if number < arguments.first or arguments.only not in name:
            continue
        say(next=number, site=name)
        try:
            with torch.inference_mode():
                first = make()
                call = rendering.captured(overload, rendering.onto(first, place.device))
                bytes_moved = rendering.moved(call)
                sets = [first] + [make() for _ in range(max(1, min(64, -(-POOL * l2 // bytes_moved))) - 1)]
                card = rendering.card_of([call], first, align=16)
                card["variants"][0]["bytes"] = bytes_moved
                candidates = rendering.render(card, place, arguments.points)
                rendering.compile_all(candidates, place)
                calls = calls_of(place, overload, sets)
                inner = max(len(sets), 4)
                roof_us = bytes_moved / copy_gbs / 1e3
                if not candidates:
                    eager = statistics.median(calls.eager(BLOCKS, inner)) / 1e3
                    say(
                        site=name,
                        family="-",
                        status="unserved",
                        eager_us=eager,
                        roof_us=roof_us,
                        detail="no family applies",
                    )
                families: set[str] = set()
                for candidate in candidates:
                    where = {
                        "site": name,
                        "family": candidate["family"],
                        "params": candidate["params"],
                        "default": candidate["family"] not in families,
                    }
                    families.add(candidate["family"])
                    say(doing=f"{name} {candidate['family']} {candidate['params']}")
                    plan = rendering.plan_of(candidate, call, place)
                    with rendering.served(plan):
                        pairs = calls.blocks(BLOCKS if where["default"] else 3, inner, 1)
                        hits = plan.hits
                    eager, ours = (statistics.median(pairs[k]) / 1e3 for k in ("eager_ns", "ours_ns"))
                    status = "ok" if hits else "not_served"
                    say(
                        **where,
                        status=status,
                        eager_us=eager,
                        ours_us=ours,
                        roof_us=roof_us,
                        ratio=eager / ours,
                        of_roof=roof_us / ours,
                        how=calls.how,
                    )
        except Exception as e:
            if "CUDA error" in str(e) or "illegal" in str(e) or getattr(e, "code", None) == 11:
                raise
            say(site=name, family="-", status="error", detail=f"{type(e).__name__}: {e}"[:1500])
        sets = first = calls = None
        torch.cuda.empty_cache()


def copy_rate(place: Any) -> float:
    """Return the rate of a copy beyond the cache: bytes read and written, GB/s."""
    import torch

    x = torch.empty(1 << 29, dtype=torch.uint8, device=place.device)
    y = torch.empty_like(x)
    best = 0.0
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        y.copy_(x)
        start.record()
        for _ in range(4):
            y.copy_(x)
        end.record()
        end.synchronize()
        best = max(best, 4 * 2 * x.numel() / start.elapsed_time(end) / 1e6)
    return best


# ---- the parent -----------------------------------------------------------------------------------------------------------------------


def save(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".tmp")
    made.write_text(json.dumps(result, indent=1) + "\n")
    made.replace(path)


def line(row: Row) -> str:
    what = f"{row['site'][:44]:44} {row['family'][:20]:20} {str(row.get('params', ''))[:90]:90}"
    if "ours_us" in row:
        return f"{what} {row['eager_us']:9.1f} {row['ours_us']:9.1f} us {row['ratio']:6.2f}x {100 * row['of_roof']:5.0f} % of a copy"
    return f"{what} {row['status']} {row.get('detail', '')[:300]}"


def start(arguments: argparse.Namespace, number: int, errors: Any) -> subprocess.Popen[str]:
    """Return a child that works from a number on."""
    command = [sys.executable, __file__, "--work", "--first", str(number), "--only", arguments.only]
    command += ["--device", str(arguments.device), "--points", arguments.points]
    command += ["--check"] if arguments.check else []
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)


def run(arguments: argparse.Namespace) -> int:
    """Start children until the list is done or the budget is spent; return the number of rows that are not ok."""
    path = Path(arguments.out)
    kind = "check" if arguments.check else "times"
    result: dict[str, Any] = {
        "kind": kind,
        "points": arguments.points,
        "made": "",
        "copy_gbs": None,
        "next": 0,
        "done": False,
        "rows": [],
    }
    if path.exists() and not arguments.fresh:
        old = json.loads(path.read_text())
        if (old.get("kind"), old.get("points")) == (kind, arguments.points) and not old["done"]:
            result = old
            result["rows"] = [r for r in old["rows"] if r.get("number", -1) < old["next"]]
    deadline = time.monotonic() + arguments.budget_s
    number, doing = result["next"], ""
    while not result["done"] and time.monotonic() < deadline:
        with tempfile.TemporaryFile("w+") as errors:  # a pipe that nobody reads would stop the child
            child = start(arguments, number, errors)
            site, stopped = "", False
            for text in child.stdout or ():
                if not text.startswith("{"):
                    continue
                row = json.loads(text)
                if "next" in row:
                    number, site, doing = row["next"], row["site"], ""
                    result["next"] = number
                elif "copy_gbs" in row:
                    result["copy_gbs"] = row["copy_gbs"]
                elif "doing" in row:
                    doing = row["doing"]
                else:
                    result["rows"].append(row | {"number": number})
                    if row["status"] != "ok" or not arguments.check:
                        print(line(row), flush=True)
                    save(path, result)
                if time.monotonic() > deadline:
                    child.kill()
                    stopped = True
                    break
            code = child.wait()
            errors.seek(0)
            said = errors.read().strip()
        if stopped:
            break
        if code == 0:
            result["done"] = True
        elif not site:
            print(said[-3000:], file=sys.stderr)
            return 1
        else:
            detail = f"exit {code} at `{doing}`: {said[-800:]}"
            row = {"site": site, "family": "-", "status": "crash", "detail": detail, "number": number}
            print(line(row), flush=True)
            result["rows"].append(row)
            number += 1
            result["next"] = number
    result["made"] = resumed.now()
    save(path, result)
    rows = result["rows"]
    by_status: dict[str, int] = {}
    for row in rows:
        by_status[row["status"]] = by_status.get(row["status"], 0) + 1
    print(
        f"{kind}: {by_status}, {'complete' if result['done'] else 'stopped by the budget; run again to go on'}: {path}"
    )
    if not arguments.check:
        best: dict[str, Row] = {}
        for row in rows:
            if row.get("ratio", 0) > best.get(row["site"], {}).get("ratio", 0):
                best[row["site"]] = row
        print("best of each:")
        for row in best.values():
            print(line(row))
    return sum(count for status, count in by_status.items() if status not in ("ok", "unserved", "refused"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--budget-s", type=float, default=300)
    parser.add_argument(
        "--points",
        choices=("default", "axes"),
        default="default",
        help="`axes`: each parameter changed alone as well",
    )
    parser.add_argument("--check", action="store_true", help="compare with eager instead of timing")
    parser.add_argument("--only", default="", help="a part of the site's name")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    parser.add_argument("--out", default="", help="the result's file")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments)
        return
    arguments.out = arguments.out or str(
        RESULT.with_name("templates-check.json") if arguments.check else RESULT
    )
    sys.exit(1 if run(arguments) else 0)


if __name__ == "__main__":
    main()
