"""Runs CUDA candidates on the CPU, block by block (blocks.h): what a kernel computes and touches can be tested on a machine without a GPU.

The interface is that of kernels.py: `render`, `compile_all`, `launch`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kernels
from kernels import evaluate, names_of

TOGETHER = 8  # candidates of one compile
HEADERS = [Path(__file__).with_name(name) for name in ("blocks.h", "blocks_device.h")]
PRELUDE = kernels.ROOT / "go/cuda/prelude/kf_kernel.cuh"
ALIGNED = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")  # a device faults on an odd address
# Variables of templates stay in the object: what a block's turn exchanges is all there.
OWN = ("-fno-gnu-unique",)
FLAGS = ("-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-march=native", "-ffp-contract=off", *OWN, *ALIGNED)

# Shared memory of a candidate's own, which is soiled before each block; that of the prelude's folds is left alone.
_SHARED = """#undef __shared__
#define __shared__ static __attribute__((section("kf_shared")))"""
_DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")

_TYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}


def prelude() -> str:
    """Return the prelude with its instructions as functions of blocks_device.h: `asm("a.b %0, %1;" : "=f"(y) : "f"(x))` becomes `y = a_b(x)`, one without a result `a_b(x)`."""
    pattern = r'asm(?: volatile)?\("([a-z0-9_.]+)(?:;| [^"]*)" :(?: "=[a-z]"\((\w+)\) )?: ?(.*?)(?: ?: "memory")?\);'

    def function(found: re.Match[str]) -> str:
        args = re.sub(r'"[a-z]"\((.*?)\)(?=, "|$)', r"\1", found[3])
        result = f"{found[2]} = " if found[2] else ""
        return f"{result}{found[1].replace('.', '_')}({args});"

    text, count = re.subn(pattern, function, PRELUDE.read_text())
    assert count and "asm" not in re.sub("//.*", "", text), "an instruction of the prelude has no function"
    return text


def _binary(candidate: dict[str, Any]) -> str:
    constants = sorted(candidate["spec"]["constants"].items())
    return hashlib.sha256(json.dumps([candidate["source"], constants]).encode()).hexdigest()[:16]


def _unit(candidates: Sequence[dict[str, Any]], soiled: bool) -> str:
    """Return one source that holds several candidates, each in a namespace with its constants, and a function that runs each entry."""
    text = ['#include "blocks.h"', prelude(), _SHARED if soiled else ""]
    for candidate in candidates:
        tag = _binary(candidate)
        entries = dict.fromkeys(k["entry"] for k in candidate["spec"]["kernels"])
        names = candidate["spec"]["constants"] | {e: f"{e}_{tag}" for e in entries}
        text += [f"#define {k} {v}" for k, v in sorted(names.items())]
        source = _DYNAMIC.sub(r"\1* const \2 = (\1*)dynamic_shared;", candidate["source"])
        text += [f"namespace n_{tag} {{", source, "}"]
        text += [f"#undef {k}" for k in [*names, "IN1", "IN2"]]
        text += [
            f'extern "C" int64_t run_{e}_{tag}(const int64_t* grid, const int64_t* block, void** args, bool backwards) '
            f"{{ return run_grid(n_{tag}::{e}_{tag}, grid, block, args, backwards); }}"
            for e in entries
        ]
    return "\n".join(text)


def compile_all(
    candidates: Iterable[dict[str, Any]], arch: int = 900, *, soiled: bool = False
) -> dict[str, ctypes.CDLL]:
    """Compile candidates, two processes at a time; return the loaded object of each binary.

    Args:
        arch: __CUDA_ARCH__.
        soiled: fill shared memory with junk before each block. Not for variables of templates, which no section can hold.
    """
    distinct = [c for _, c in sorted({_binary(c): c for c in candidates}.items())]
    jobs = [distinct[i : i + TOGETHER] for i in range(0, len(distinct), TOGETHER)]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda job: _compile(job, arch, soiled), jobs))
    return {_binary(c): o for group, o in zip(jobs, objects, strict=True) for c in group}


def _compile(group: Sequence[dict[str, Any]], arch: int, soiled: bool) -> ctypes.CDLL:
    unit, flags = _unit(group, soiled), [*FLAGS, f"-D__CUDA_ARCH__={arch}"]
    key = hashlib.sha256("\0".join([unit, *[h.read_text() for h in HEADERS], *flags]).encode()).hexdigest()
    target = kernels._cache() / f"blocks-{key[:24]}.so"
    if not target.exists():
        source = target.with_suffix(".cc")
        source.write_text(unit)
        made = target.with_suffix(f".{kernels.os.getpid()}.tmp")
        command = ["g++", *flags, f"-I{HEADERS[0].parent}", "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{[c['family'] for c in group]}: {done.stderr[:4000]}"
        made.rename(target)
    return ctypes.CDLL(str(target))


def _at_once(kernel: dict[str, Any], grid: list[int], names: dict[str, int]) -> int:
    """Return how many blocks of a launch run at once: a cluster, or all of a cooperative one, which must fit the device."""
    if kernel.get("cooperative"):
        assert "cluster" not in kernel, "the tests' cooperative launches have no clusters"
        fits = names["sm_count"] * names["max_blocks_per_sm"]
        assert math.prod(grid) <= fits, f"a cooperative launch of {grid} blocks (the device holds {fits})"
        return math.prod(grid)
    cluster = [evaluate(e, names) for e in kernel.get("cluster", ["1"])]
    assert cluster[0] <= 16 and set(cluster[1:]) <= {1} and grid[0] % cluster[0] == 0, (grid, cluster)
    return cluster[0]


class Prepared(kernels.Prepared):
    """A candidate bound to a call and to memory, ready to run: `run()`."""

    def __init__(
        self,
        candidate: dict[str, Any],
        objects: dict[str, ctypes.CDLL],
        call: dict[str, Any],
        addresses: dict[str, int],
    ) -> None:
        names = names_of(call)
        self._grids = []
        for kernel in candidate["spec"]["kernels"]:
            assert evaluate(kernel["smem"], names) <= 227 << 10, kernel["smem"]
            values = []
            for given in kernel["args"]:
                if "slot" in given:
                    values.append(ctypes.c_void_p(addresses[given["slot"]]))
                    continue
                value = evaluate(given["int"], names) if "int" in given else float.fromhex(given["float"])
                made = _TYPES[given["type"]](value)
                assert "int" not in given or made.value == value, f"argument {given} is {value}"
                values.append(made)
            pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
            grid, block = ([evaluate(e, names) for e in kernel[what]] for what in ("grid", "block"))
            assert min(*grid, *block) > 0 and grid[0] < 1 << 31 and max(grid[1:]) < 1 << 16, (grid, block)
            entry = getattr(objects[_binary(candidate)], f"run_{kernel['entry']}_{_binary(candidate)}")
            entry.argtypes, entry.restype = [*[ctypes.c_void_p] * 3, ctypes.c_bool], ctypes.c_int64
            block += [_at_once(kernel, grid, names), evaluate(kernel["smem"], names)]
            sizes = (ctypes.c_int64 * 3)(*grid), (ctypes.c_int64 * 5)(*block)
            self._grids.append((entry, sizes, pointers, values))

    def run(self, pieces: int, pool: ThreadPoolExecutor | None = None) -> None:
        for entry, (grid, block), pointers, _ in self._grids:
            hung = entry(grid, block, pointers, pieces % 2 == 0)
            assert hung >= 0, "more threads or blocks than the tests run at once"
            assert hung == 0, f"block {hung - 1}: threads wait for others that never come to the same barrier"


def launch(*args: Any, **options: Any) -> Any:
    """Run a candidate on copies of its inputs between guard pages: `kernels.launch`, with blocks in place of ranges."""
    return kernels.launch(*args, prepared=Prepared, **options)
