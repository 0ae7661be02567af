"""Hardware counters of the kernels that serve rows of bench/ops.py: what limits a row whose goal is missed. Adds `counters` to bench/results/ops-DEVICE.json.

    python bench/counters.py --budget-s 300                 rows of missed goals first, then the other served ones
    python bench/counters.py --only 'group*' --out FILE

Each row's pack is applied in a process below NVIDIA's `ncu` (of the CUDA toolkit), and its call is made once under the counters, with cold caches and the
clocks left alone. The file is saved after each row; a row keeps its counters until `--again`. Times under ncu are no evidence of speed: the row has those.
A pack is where bench/ops.py has left it (--home): a row whose pack is not there is passed over.
The exit code is 5 without ncu, rows or packs, 6 if rows are left.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import programs
import resumed

ROOT = Path(__file__).resolve().parent.parent
CALLS_BEFORE = 3  # libraries load code, plans allocate workspaces
ROW_S = 120.0  # a process below ncu: torch starts, each kernel runs once for each group of counters
OURS = "kf_"  # kernels of templates, and of authors, begin so

# ncu's names, and ours (docs/evidence.md); parts are per cent of what the device can do.
METRICS = {
    "gpu__time_duration.sum": "ns",
    "dram__bytes_read.sum": "read_bytes",
    "dram__bytes_write.sum": "written_bytes",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_pct",
    "lts__t_sector_hit_rate.pct": "l2_hit_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_pct",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_pct",
    "launch__registers_per_thread": "registers",
}

Row = dict[str, Any]


def parse(text: str) -> list[Row]:
    """Return the kernels of ours in a raw CSV page of ncu, with their counters under our names; a counter that it could not read is missing.

    Raises:
        ValueError: there is no such page in the text; the words are ncu's last ones.

    Example:
        >>> parse('"ID","Kernel Name","dram__bytes_read.sum"\\n"","","byte"\\n"0","kf_main","1,024"\\n"1","other","7"\\n')
        [{'kernel': 'kf_main', 'read_bytes': 1024.0}]
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        said = [line for line in lines if line.startswith("==ERROR==")] or lines[-1:]
        raise ValueError(" ".join(said).strip() or "it printed nothing")
    page = [line for line in lines[first:] if line.startswith('"')]
    found = []
    for line in list(csv.DictReader(page))[1:]:  # the first has the units
        if not line["Kernel Name"].startswith(OURS):
            continue
        row: Row = {"kernel": line["Kernel Name"].partition("(")[0]}
        for theirs, ours in METRICS.items():
            try:
                row[ours] = float(line[theirs].replace(",", ""))
            except (KeyError, ValueError):
                continue  # this device has no such counter
        found.append(row)
    return found


def command(ncu: str, target: str, case: str, pack: Path) -> list[str]:
    options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    options += [
        "--profile-from-start",
        "off",
        "--target-processes",
        "application-only",
        "--metrics",
        ",".join(METRICS),
    ]
    return [ncu, *options, sys.executable, __file__, "--target", target, "--child", case, "--pack", str(pack)]


def child(case: str, pack: Path) -> int:
    """Be the process below ncu: serve a row's call from its pack, once under the counters."""
    import ops_child
    import torch

    import kernelforge

    found = ops_child.cases_of("cuda", None)[case]
    kernelforge.apply(pack)
    with torch.inference_mode():
        arguments = found.make("cuda")
        for _ in range(CALLS_BEFORE):
            found.call(*arguments)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        found.call(*arguments)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
    return 0


def wanted(result: dict[str, Any], only: str, again: bool, home: Path) -> list[Row]:
    """Return the served rows to look at whose packs are in the home, those of missed goals first."""
    missed = {c for g in result["summary"]["goals"] if g["met"] is False for c in g.get("cases", ())}
    rows = [
        r for r in result["rows"] if r["served"] and r["search"].get("pack") and resumed.fits(r["case"], only)
    ]
    rows = [r for r in rows if (again or "counters" not in r) and (home / r["search"]["pack"]).is_dir()]
    return sorted(rows, key=lambda r: r["case"] not in missed)


def look(row: Row, ncu: str, target: str, home: Path, seconds: float) -> bool:
    """Add `counters` to a row, or `counters_why`; return whether there was time for it. seconds: that are left."""
    words = command(ncu, target, row["case"], home / row["search"]["pack"])
    kernels: list[Row] = []
    try:
        _, out, errors = programs.output(words, min(seconds, ROW_S), errors=True)
        kernels = parse(out)
        row["counters_why"] = None if kernels else f"no kernel of ours ran: {errors.strip()[-200:]}"
    except ValueError as e:
        row["counters_why"] = str(e)[:300]
    except subprocess.TimeoutExpired:
        if seconds < ROW_S:
            return False
        row["counters_why"] = f"no answer within {ROW_S:.0f} s"
    row |= {"counters": kernels, "counters_made": resumed.now()}
    return True


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--target", choices=("cuda",), default="cuda")
    add("--budget-s", type=float, default=300.0, help="a row that is under way then is left")
    add("--only", default="*", metavar="PATTERN", help="cases whose name holds this, or fits it with * and ?")
    add("--out", type=Path, help="result file of bench/ops.py (default: bench/results/ops-DEVICE.json)")
    add("--home", type=Path, help="folder of its packs (default: build/bench-ops/DEVICE)")
    add("--again", action="store_true", help="also rows that have counters")
    add("--commit", help="what a row says of the code that read its counters; default: git's HEAD")
    add("--child", help=argparse.SUPPRESS)
    add("--pack", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.child:
        return child(args.child, args.pack)
    import models
    import ops

    from kernelforge import _needs

    ncu = _needs.of_toolkit("ncu")
    if ncu is None:
        print(
            "read counters: no ncu in PATH, CUDA_HOME or /usr/local/cuda\nhint: install the CUDA toolkit's Nsight Compute",
            file=sys.stderr,
        )
        return 5
    if args.out is None or args.home is None:
        import torch

        slug = models.slug(torch.cuda.get_device_name())
        args.out, args.home = args.out or ops.RESULTS / f"ops-{slug}.json", args.home or ops.HOME / slug
    result = models.load(args.out)
    if not result:
        print(
            f"read counters: `{args.out}` has no rows\nhint: python bench/ops.py --target cuda",
            file=sys.stderr,
        )
        return 5
    commit = args.commit or models.commit()
    until, rows = time.monotonic() + args.budget_s, wanted(result, args.only, args.again, args.home)
    served = [r for r in result["rows"] if r["served"]]
    if served and not any((args.home / str(r["search"].get("pack"))).is_dir() for r in served):
        print(
            f"read counters: none of the packs of {len(served)} served rows is in `{args.home}`\n"
            "hint: bring that folder along from the machine that measured the rows",
            file=sys.stderr,
        )
        return 5
    while rows and (left := until - time.monotonic()) > 0:
        row = rows.pop(0)
        if not look(row, ncu, args.target, args.home, left):
            rows.append(row)
            break
        row["counters_commit"] = commit
        models.save(args.out, result)
        print(f"{row['case'][:52]:52} {row['counters_why'] or told(row['counters'])}", flush=True)
    return ops.UNFINISHED if rows else 0


def told(kernels: list[Row]) -> str:
    """Return what the counters say of a row, in words.

    Example:
        >>> told([{"kernel": "kf_main", "dram_pct": 61.6, "issue_pct": 44.0, "warps_pct": 25.0, "registers": 79.0}])
        'kf_main: memory 62 %, issue slots 44 %, warps 25 % of the peak, 79 registers'
    """
    names = {"dram_pct": "memory", "issue_pct": "issue slots", "warps_pct": "warps"}
    lines = []
    for k in kernels:
        parts = [f"{name} {k[key]:.0f} %" for key, name in names.items() if key in k]
        registers = [f"{k['registers']:.0f} registers"] if "registers" in k else []
        lines.append(f"{k['kernel']}: " + ", ".join([", ".join(parts) + " of the peak", *registers]))
    return "; ".join(lines)


if __name__ == "__main__":
    sys.exit(main())
