"""Compiles host candidates and runs them by ctypes on guarded memory, without worker or runtime: the templates' own proving ground.

It owns the way card -> candidates (the Go command `render`) -> shared objects (the product's flags, several candidates in one compile) -> outputs.
Compiled objects are kept in a folder of the system's temporary directory, named by a hash of everything that went in.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import math
import mmap
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kernelforge.referee.calls import DTYPES, extent, slot_descriptors

ROOT = Path(__file__).resolve().parents[3]
PRELUDE = ROOT / "go/host/prelude/kf_kernel.h"
TOGETHER = 6  # candidates in one compile
THREADS = 2
PAGE = mmap.PAGESIZE
DEVICE = {"sm_count": 3, "smem_optin": 232448, "max_blocks_per_sm": 2}  # facts of blocks.py


@contextmanager
def multiprocessors(count: int) -> Iterator[None]:
    """Launches of the body are on a device of so many multiprocessors: the more blocks share a row, the less each of them has."""
    kept = DEVICE["sm_count"]
    DEVICE["sm_count"] = count
    try:
        yield
    finally:
        DEVICE["sm_count"] = kept


class Arg(ctypes.Union):
    """kf_arg of the prelude."""

    _fields_ = [("p", ctypes.c_void_p), ("i", ctypes.c_int64), ("f", ctypes.c_double)]


@functools.cache
def _cache() -> Path:
    folder = Path(tempfile.gettempdir()) / f"kernelforge-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@functools.cache
def isa() -> str:
    """Return the widest instruction set that the prelude knows and this CPU has."""
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512" if "avx512bw" in flags else "avx2" if "avx2" in flags else "sse2"


@functools.cache
def _render() -> Path:
    target = _cache() / "render"
    command = ["go", "build", "-o", str(target), "./go/propose/template/cmd/render"]
    subprocess.run(command, cwd=ROOT, check=True)
    return target


def render(cards: Sequence[dict[str, Any]], points: str) -> list[list[dict[str, Any]]]:
    """Return the candidates of each card. points: `default`, `axes` or `all`."""
    command = [str(_render()), "-points", points, "-isa", isa()]
    done = subprocess.run(
        command, input=json.dumps(_plain(cards)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _plain(value: Any) -> Any:
    """Return a JSON value without numbers that JSON lacks: they become strings, as docs/formats.md has them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


@functools.cache
def _flags() -> tuple[str, ...]:
    """Return the product's compile flags, read from the Go source that owns them."""
    text = (ROOT / "go/host/compiler.go").read_text()
    found = re.search(r"var Flags = \[\]string\{(.*?)\n\}", text, re.DOTALL)
    assert found, "find the compile flags in go/host/compiler.go"
    return tuple(re.findall(r'"([^"]+)"', found[1]))


def _unit(candidates: Sequence[dict[str, Any]]) -> str:
    """Return one source that holds several candidates, each in a namespace with its constants and its entry renamed."""
    text = []
    for candidate in candidates:
        constants = {k: v for k, v in candidate["spec"]["constants"].items() if k != "KF_LANES"}
        entries = {kernel["entry"] for kernel in candidate["spec"]["kernels"]}
        names = constants | {e: f"{e}_{_tag(candidate)}" for e in entries}
        text += [f"#define {k} {v}" for k, v in sorted(names.items())]
        text += [f"namespace n_{_tag(candidate)} {{", candidate["source"], "}"]
        text += [f"#undef {k}" for k in names]
    return "\n".join(text)


def _binary(candidate: dict[str, Any]) -> str:
    constants = sorted(candidate["spec"]["constants"].items())
    return hashlib.sha256(json.dumps([candidate["source"], constants]).encode()).hexdigest()[:16]


def _tag(candidate: dict[str, Any]) -> str:
    return _binary(candidate)


def compile_all(candidates: Iterable[dict[str, Any]], compiler: str = "g++") -> dict[str, ctypes.CDLL]:
    """Compile candidates, two processes at a time; return the loaded object of each binary (`object_of`)."""
    distinct = {_binary(c): c for c in candidates}
    by_lanes: dict[str, list[dict[str, Any]]] = {}
    for _, candidate in sorted(distinct.items()):
        by_lanes.setdefault(candidate["spec"]["constants"].get("KF_LANES", ""), []).append(candidate)
    jobs = [
        (lanes, group[i : i + TOGETHER])
        for lanes, group in sorted(by_lanes.items())
        for i in range(0, len(group), TOGETHER)
    ]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda job: _compile(*job, compiler), jobs))
    return {_binary(c): o for (_, group), o in zip(jobs, objects, strict=True) for c in group}


def _compile(lanes: str, group: Sequence[dict[str, Any]], compiler: str) -> ctypes.CDLL:
    options = [*_flags(), *([f"-DKF_LANES={lanes}"] if lanes else []), f"-I{PRELUDE.parent}"]
    unit = _unit(group)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    key = hashlib.sha256(
        "\0".join([unit, PRELUDE.read_text(), version, isa(), *options]).encode()
    ).hexdigest()
    target = _cache() / f"{key[:24]}.so"
    if not target.exists():
        source = target.with_suffix(".cc")
        source.write_text(unit)
        made = target.with_suffix(f".{os.getpid()}.tmp")
        done = subprocess.run(
            [compiler, *options, "-o", str(made), str(source)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{[c['family'] for c in group]}: {done.stderr[:4000]}"
        made.rename(target)
    return ctypes.CDLL(str(target))


# ---- memory ------------------------------------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Memory:
    """Bytes between two pages that fault: at the end of their mapping (the last address that is a multiple of `align`), where an access past the end is seen, or at its start."""

    def __init__(self, count: int, *, at_end: bool, poison: int, align: int = 1) -> None:
        self.count = count
        room = -(-max(count, 1) // PAGE) * PAGE
        self._length = room + 2 * PAGE
        base = _libc.mmap(None, self._length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value)
        self._base: int = base
        assert _libc.mprotect(base + PAGE, room, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        self.address = base + PAGE + ((room - max(count, 1)) // align * align if at_end else 0)
        self.bytes = torch.frombuffer(
            (ctypes.c_uint8 * max(count, 1)).from_address(self.address), dtype=torch.uint8
        )
        self.bytes.fill_(poison)

    def view(self, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
        count = extent(sizes, strides)
        return self.bytes[: count * dtype.itemsize].view(dtype).as_strided(list(sizes), list(strides))

    def free(self) -> None:
        _libc.munmap(self._base, self._length)


def align_of(candidate: dict[str, Any]) -> int:
    """Return what a candidate asks of every tensor's address, bytes: CUDA templates say so by a constant."""
    return 16 if candidate["spec"]["constants"].get("ALIGNED") == "1" else 1


# ---- launch ------------------------------------------------------------------------------------------------------------------------


def names_of(call: dict[str, Any]) -> dict[str, int]:
    """Return the names that a spec's expressions may use, with their values (docs/formats.md, `spec`)."""
    names = {"threads": THREADS, "cache_line": 64, "l2_bytes": 1 << 20, **DEVICE}

    def tensor(prefix: str, d: dict[str, Any]) -> None:
        numel = 1
        for i, (size, stride) in enumerate(zip(d["sizes"], d["strides"], strict=True)):
            names[f"{prefix}_size{i}"], names[f"{prefix}_stride{i}"] = size, stride
            numel *= size
        names[f"{prefix}_numel"], names[f"{prefix}_dim"] = numel, len(d["sizes"])

    for arg in call["args"]:
        name, kind = arg["name"], arg["kind"]
        if kind == "tensor":
            tensor(name, arg)
        elif kind == "tensors":
            names[f"{name}_count"] = len(arg["items"])
            for k, item in enumerate(arg["items"]):
                tensor(f"{name}_{k}", item)
        elif kind in ("int", "bool"):
            names[name] = int(arg["value"])
        elif kind in ("ints", "bools"):
            names |= {f"{name}_{i}": int(v) for i, v in enumerate(arg["value"])}
    for k, out in enumerate(call["outputs"]):
        tensor(f"out{k}", out)
    return names


def evaluate(text: str, names: dict[str, int]) -> int:
    """Return the value of a spec's expression; `/` and `%` truncate as in C, and only non-negative operands occur here."""
    functions = {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b)}
    return int(eval(text.replace("/", "//"), {"__builtins__": {}}, names | functions))


def slot_names(call: dict[str, Any]) -> list[str]:
    names: list[str] = []
    for arg in call["args"]:
        if arg["kind"] == "tensor":
            names.append(arg["name"])
        elif arg["kind"] == "tensors":
            names += [f"{arg['name']}_{k}" for k in range(len(arg["items"]))]
    return names


def parts(work: int, grain: int, pieces: int) -> list[tuple[int, int]]:
    """Return how a parallel_for over `pieces` threads may split the work: at odd places, none smaller than it must be."""
    step = max(1, min(work, max(min(grain, work), -(-work // pieces)) | 1))
    return [(b, min(b + step, work)) for b in range(0, work, step)]


class Prepared:
    """A candidate bound to a call and to memory, ready to run: `run(pieces)`."""

    def __init__(
        self,
        candidate: dict[str, Any],
        objects: dict[str, ctypes.CDLL],
        call: dict[str, Any],
        addresses: dict[str, int],
    ) -> None:
        names = names_of(call)
        self._keep: list[Any] = []
        self._kernels = []
        for kernel in candidate["spec"]["kernels"]:
            args = (Arg * len(kernel["args"]))()
            for at, given in zip(args, kernel["args"], strict=True):
                if "slot" in given:
                    at.p = addresses[given["slot"]]
                elif "int" in given:
                    at.i = evaluate(given["int"], names)
                else:
                    at.f = float.fromhex(given["float"])
            entry = getattr(objects[_binary(candidate)], f"{kernel['entry']}_{_tag(candidate)}")
            entry.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
            entry.restype = None
            work, grain = evaluate(kernel["work"], names), evaluate(kernel["grain"], names)
            self._kernels.append((entry, work, grain, ctypes.addressof(args)))
            self._keep.append(args)

    def run(self, pieces: int, pool: ThreadPoolExecutor | None = None) -> None:
        """Run every kernel, its work in up to `pieces` parts, one after the other or on a pool."""
        for entry, work, grain, args in self._kernels:
            if pool is None:
                for begin, end in parts(work, grain, pieces):
                    entry(begin, end, args)
                continue
            step = max(1, min(grain, work), -(-work // pieces))
            if step >= work:
                entry(0, work, args)
                continue
            waiting = [pool.submit(entry, b, min(b + step, work), args) for b in range(step, work, step)]
            entry(0, step, args)
            for w in waiting:
                w.result()


def workspace_bytes(candidate: dict[str, Any], call: dict[str, Any]) -> list[int]:
    return [evaluate(w["bytes"], names_of(call)) for w in candidate["spec"].get("workspaces") or []]


def launch(
    candidate: dict[str, Any],
    objects: dict[str, ctypes.CDLL],
    call: dict[str, Any],
    tensors: Sequence[torch.Tensor],
    *,
    at_end: bool = True,
    poison: int = 0xA5,
    pieces: int = 3,
    prepared: type[Prepared] = Prepared,
) -> list[torch.Tensor]:
    """Run a candidate on copies of the input tensors; return its outputs in private memory, with eager's strides.

    Faults (and so ends the process) on an access outside a tensor; asserts that inputs and the gaps between output elements stay as they were.
    """
    memories: list[Memory] = []
    align = align_of(candidate)

    def room(count: int) -> Memory:
        memories.append(Memory(count, at_end=at_end, poison=poison, align=align))
        return memories[-1]

    inputs: list[tuple[Memory, torch.Tensor]] = []
    addresses: dict[str, int] = {}
    for name, (_, d), tensor in zip(slot_names(call), slot_descriptors(call), tensors, strict=True):
        memory = room(extent(d["sizes"], d["strides"]) * tensor.element_size())
        flat = tensor.as_strided((extent(d["sizes"], d["strides"]),), (1,))
        memory.bytes[: memory.count].view(tensor.dtype).copy_(flat)
        inputs.append((memory, memory.bytes.clone()))
        addresses[name] = memory.address
    outputs: list[tuple[Memory, dict[str, Any]]] = []
    for k, d in enumerate(call["outputs"]):
        if d["alias"] >= 0:
            memory = inputs[d["alias"]][0]
        else:
            memory = room(extent(d["sizes"], d["strides"]) * DTYPES[d["dtype"]].itemsize)
        addresses[f"out{k}"] = memory.address
        outputs.append((memory, d))
    for k, count in enumerate(workspace_bytes(candidate, call)):
        memory = room(count)
        if candidate["spec"]["workspaces"][k]["zeroed"]:
            memory.bytes.zero_()
        addresses[f"ws{k}"] = memory.address
    prepared(candidate, objects, call, addresses).run(pieces)
    written = {id(m) for m, _ in outputs}
    for memory, before in inputs:
        assert id(memory) in written or torch.equal(memory.bytes, before), "an input was changed"
    found = []
    for memory, d in outputs:
        view = memory.view(DTYPES[d["dtype"]], d["sizes"], d["strides"])
        if d["alias"] < 0 and memory.count != view.numel() * view.element_size():
            gaps = torch.ones(memory.count // view.element_size(), dtype=torch.bool)
            gaps.as_strided(view.shape, view.stride()).fill_(False)
            assert (memory.bytes.view(-1, view.element_size())[gaps] == poison).all(), "a gap was written"
        clean = torch.empty(extent(d["sizes"], d["strides"]), dtype=view.dtype).as_strided(
            view.shape, view.stride()
        )
        found.append(clean.copy_(view))
    for memory in memories:
        memory.free()
    return found
