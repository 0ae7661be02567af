"""Describes calls as the capture does (docs/formats.md, `call`), in Python, for tests that run without the extension."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch

from kernelforge.referee.calls import overload
from kernelforge.referee.reference import run_eager


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def tensor(t: torch.Tensor, name: str | None = None) -> dict[str, Any]:
    d: dict[str, Any] = {"name": name} if name else {}
    return {
        **d,
        "kind": "tensor",
        "dtype": dtype_name(t.dtype),
        "sizes": list(t.shape),
        "strides": list(t.stride()),
    }


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def _argument(name: str, value: Any, kind: str) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return tensor(value, name)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        return {"name": name, "kind": "tensors", "items": [tensor(t) for t in value]}
    if value is None:
        return {"name": name, "kind": "none"}
    if isinstance(value, torch.dtype):
        return {"name": name, "kind": "dtype", "value": dtype_name(value)}
    if isinstance(value, str):
        return {"name": name, "kind": "string", "value": value}
    if isinstance(value, (list, tuple)):
        return {
            "name": name,
            "kind": "bools" if value and isinstance(value[0], bool) else "ints",
            "value": list(value),
        }
    if kind == "Tensor":  # a Python number in place of a tensor arrives as a wrapped 0-dim tensor
        dtype, raw = (
            ("float64", struct.pack("<d", value))
            if isinstance(value, float)
            else ("int64", struct.pack("<q", value))
        )
        return {
            "name": name,
            "kind": "wrapped",
            "dtype": dtype,
            "wrapped_number": True,
            "bits": raw[::-1].hex(),
        }
    plain = {bool: "bool", int: "int", float: "float"}[type(value)]
    found: dict[str, Any] = {"name": name, "kind": plain, "value": value}
    if kind in ("Scalar", "number"):
        found = {"name": name, "kind": "scalar", "type": plain, "value": value}
    if plain == "float":
        found["bits"] = _bits(value)
    return found


def call_of(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the `call` JSON of a call, its outputs found by running eager."""
    o = overload(name)
    types = [str(a.type).removeprefix("Optional[").removesuffix("]") for a in o.function._schema.arguments]
    args = [_argument(n, v, t) for n, v, t in zip(o.names, arguments, types, strict=True)]
    slots: list[str] = []
    for a in args:
        slots += [a["name"]] * (len(a["items"]) if a["kind"] == "tensors" else a["kind"] == "tensor")
    aliases = [sorted(r.alias_info.before_set) if r.alias_info else [] for r in o.function._schema.returns]
    by_set = {
        next(iter(a.alias_info.before_set)): a.name
        for a in o.function._schema.arguments
        if a.alias_info and a.alias_info.is_write
    }
    outputs = []
    for out, alias in zip(run_eager(o, arguments), aliases, strict=True):
        to = slots.index(by_set[alias[0]]) if alias and alias[0] in by_set else -1
        outputs.append(
            {
                "dtype": dtype_name(out.dtype),
                "sizes": list(out.shape),
                "strides": list(out.stride()),
                "alias": to,
            }
        )
    return {"overload": name, "args": args, "outputs": outputs}
