"""Small kernels written by hand, made into plans for calls that were captured: real code behind the hooks, without search or templates.

It owns one kernel per overload as a piece of C++ that is specialised to the call's sizes and strides, its compile, and the plan around it. The same
piece is a loop over a range on the host and a grid-stride loop on CUDA. Correct and slow by intent.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import struct
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import nvrtc
from kernelforge import _ext

Call = dict[str, Any]
FLAGS = [
    *(
        "-x",
        "c++",
        "-std=c++20",
        "-O1",
        "-fPIC",
        "-shared",
        "-nostartfiles",
        "-fno-exceptions",
        "-fno-rtti",
        "-ffp-contract=off",
    ),
    *("-fno-math-errno", "-fvisibility=hidden", "-Wl,-z,noexecstack", "-Wl,-z,relro", "-Wl,-z,now"),
]
PRELUDE = """
typedef long long i64;
union kf_arg { void* p; i64 i; double f; };
extern "C" float expf(float); extern "C" float erff(float); extern "C" float tanhf(float); extern "C" float powf(float, float);
extern "C" float sqrtf(float); extern "C" float logf(float); extern "C" float floorf(float);
#define KF_ENTRY extern "C" __attribute__((visibility("default")))
"""
CUDA_PRELUDE = """
typedef long long i64;
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
"""
CTYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "i64",
    "int32": "int",
    "uint8": "unsigned char",
    "bool": "unsigned char",
}


@functools.cache
def image(source: str) -> bytes:
    """Return the shared object of a source; kept in the system's temporary folder by content."""
    folder = Path(tempfile.gettempdir()) / "kernelforge-handmade"
    folder.mkdir(mode=0o700, exist_ok=True)
    key = hashlib.sha256("\0".join([source, *FLAGS]).encode()).hexdigest()[:24]
    target = folder / f"{key}.so"
    if not target.exists():
        made = folder / f"{key}.{id(source)}.tmp"
        done = subprocess.run(
            ["g++", *FLAGS, "-o", str(made), "-", "-lm"],
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr}\n{source}"
        made.replace(target)
    return target.read_bytes()


@functools.cache
def cubin(source: str, device: int) -> bytes:
    """Return the cubin of a source for a device; products and sums are not contracted, as on the host."""
    arch = nvrtc.arch_of(torch.cuda.get_device_capability(device))
    return nvrtc.compile(source, arch, ["--fmad=false"])


@dataclass
class Kernel:
    """What a plan needs beside its call: the body of `for (i64 i = begin; i < end; ++i)` and how much work there is."""

    body: str
    work: str
    slots: list[str]
    before: str = ""
    types: dict[str, str] = field(default_factory=dict)

    def source(self) -> str:
        lines = [PRELUDE, "KF_ENTRY void kf_main(i64 begin, i64 end, const kf_arg* args) {"]
        lines += [f"  auto* {s} = ({self.types[s]}*)args[{k}].p;" for k, s in enumerate(self.slots)]
        lines += [self.before, "  for (i64 i = begin; i < end; ++i) {", self.body, "  }", "}"]
        return "\n".join(lines)

    def cuda_source(self) -> str:
        parameters = [f"{self.types[s]}* {s}" for s in self.slots] + ["i64 kf_work"]
        first, step = "blockIdx.x * (i64)blockDim.x + threadIdx.x", "(i64)gridDim.x * blockDim.x"
        return "\n".join(
            [
                CUDA_PRELUDE,
                f'extern "C" __global__ void kf_main({", ".join(parameters)}) {{',
                self.before,
                f"  for (i64 i = {first}; i < kf_work; i += {step}) {{",
                self.body,
                "  }",
                "}",
            ]
        )

    def spec(self, cuda: bool) -> dict[str, Any]:
        """Return the launch spec."""
        args: list[dict[str, Any]] = [{"slot": s} for s in self.slots]
        geometry: dict[str, Any] = {"work": self.work, "grain": "16"}
        if cuda:
            args.append({"int": self.work, "type": "i64"})
            geometry = {
                "grid": [f"min(ceildiv({self.work}, 128), 1024)", "1", "1"],
                "block": ["128", "1", "1"],
                "smem": "0",
            }
        return {
            "schema": 1,
            "constants": {},
            "workspaces": [],
            "kernels": [{"entry": "kf_main", **geometry, "args": args}],
        }


def slots_of(call: Call) -> dict[str, dict[str, Any]]:
    """Return slot name -> descriptor: inputs, then outputs."""
    return dict(
        _named_slots(call)
    )  # `native_group_norm.out` has an argument called out0: the same memory as the output of that name


def _named_slots(call: Call) -> list[tuple[str, dict[str, Any]]]:
    slots: list[tuple[str, dict[str, Any]]] = []
    for arg in call["args"]:
        if arg["kind"] == "tensor":
            slots.append((arg["name"], arg))
        elif arg["kind"] == "tensors":
            slots += [(f"{arg['name']}_{k}", item) for k, item in enumerate(arg["items"])]
    return slots + [(f"out{k}", out) for k, out in enumerate(call["outputs"])]


def arg(call: Call, name: str) -> Any:
    """Return an argument's value by name (None for nullopt)."""
    found = next(a for a in call["args"] if a["name"] == name)
    if found["kind"] in ("float", "scalar") and "bits" in found:
        return struct.unpack("<d", int(found["bits"], 16).to_bytes(8, "little"))[0]
    return found.get("value")


def literal(value: float) -> str:
    """Return a C++ float literal of exactly this value."""
    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return f"({'-' if value < 0 else ''}__builtin_inff())"
    return f"(float){float(value).hex()}"


def numel(d: dict[str, Any]) -> int:
    n = 1
    for s in d["sizes"]:
        n *= s
    return n


def unravel(index: str, sizes: list[int], names: str = "d") -> str:
    """Return C++ that splits `index` into d0, d1, ... (row-major)."""
    text = f"    i64 rest_{names} = {index};\n"
    for k in reversed(range(len(sizes))):
        text += f"    i64 {names}{k} = rest_{names} % {sizes[k]}; rest_{names} /= {sizes[k]};\n"
    return text


def at(slot: str, d: dict[str, Any], indices: list[str]) -> str:
    """Return the C++ element of a slot; missing leading and size-1 dimensions broadcast."""
    lead = len(indices) - len(d["sizes"])
    terms = [f"({indices[lead + k]}) * {d['strides'][k]}" for k, size in enumerate(d["sizes"]) if size > 1]
    return f"{slot}[{' + '.join(terms) or '0'}]"


def dims(d: dict[str, Any], names: str = "d") -> list[str]:
    return [f"{names}{k}" for k in range(len(d["sizes"]))]


def operand(call: Call, name: str) -> str:
    """Return an operand of a pointwise kernel: an element, or the literal of a wrapped number."""
    found = next(a for a in call["args"] if a["name"] == name)
    if found["kind"] == "wrapped":
        raw = int(found["bits"], 16).to_bytes(8, "little")
        form = {"float64": "<d", "float32": "<f4x", "int64": "<q", "bool": "<?7x"}[found["dtype"]]
        return literal(struct.unpack(form, raw)[0])
    return at(name, found, dims(call["outputs"][0]))


def kernel(call: Call, body: str, work: str, before: str = "") -> Kernel:
    slots = slots_of(call)
    return Kernel(body, work, list(slots), before, {name: CTYPES[d["dtype"]] for name, d in slots.items()})


def pointwise(expression: Callable[[Call], str]) -> Callable[[Call], Kernel]:
    def build(call: Call) -> Kernel:
        out = call["outputs"][0]
        body = unravel("i", out["sizes"]) + f"    {at('out0', out, dims(out))} = {expression(call)};"
        return kernel(call, body, "out0_numel")

    return build


def plan_json(call: Call, made: Kernel, device: int = -1, **changes: Any) -> str:
    """Return the JSON of a plan for exactly this call."""
    plan = {
        "id": "p-" + hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()[:8],
        "call": call,
        "spec": made.spec(device >= 0),
        "align": [element_bytes(d) for _, d in _named_slots(call)],
        "deterministic": True,
        "exact": False,
    }
    if device < 0:
        plan["threads"] = torch.get_num_threads()
    return json.dumps(plan | changes)


def element_bytes(d: dict[str, Any]) -> int:
    return {"float64": 8, "int64": 8, "float32": 4, "int32": 4}.get(d["dtype"], 1)


def open_plan(
    call: Call, kernels: dict[str, Callable[[Call], Kernel]], device: int = -1, **changes: Any
) -> Any:
    """Return a plan, ready to publish, for a call captured on this device (-1: the host)."""
    made = kernels[call["overload"]](call)
    code = image(made.source()) if device < 0 else cubin(made.cuda_source(), device)
    return _ext.load().plan_open(plan_json(call, made, device, **changes), code, device)


def record(function: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return the capture records of one run of the function."""
    module = _ext.load()
    module.capture_begin(0, 0)
    try:
        function()
    finally:
        records = module.capture_end()
    return records
