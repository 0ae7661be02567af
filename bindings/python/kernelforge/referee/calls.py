"""A call of an overload as the referee handles it: overload, bound arguments, which tensors are read, written, or only written.

It owns the way from the `call` JSON (docs/formats.md) to Python arguments and to eager's outputs. It refuses values: tensors come from captured
payloads or from `draws`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import RefereeFault

DTYPES: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}

# Arguments that an overload overwrites without reading, beside those that its schema marks as `out`.
_OVERWRITTEN = {"aten::copy_": ("self",)}


class Overload:
    """One overload of torch: its function and what its schema says."""

    def __init__(self, name: str) -> None:
        space, rest = name.split("::")
        packet, _, variant = rest.partition(".")
        try:
            self.function: Any = getattr(getattr(getattr(torch.ops, space), packet), variant or "default")
        except AttributeError as e:
            raise RefereeFault(
                f"find the overload `{name}`: torch {torch.__version__} has none of this name"
            ) from e
        self.name = name
        # The rules depend on the operator, not on its form: relu, relu_ and relu.out share one.
        self.operator = packet[:-1] if packet.endswith("_") else packet
        schema = self.function._schema
        self.names: list[str] = [a.name for a in schema.arguments]
        self.keyword = {a.name for a in schema.arguments if a.kwarg_only}
        self.overwritten = {a.name for a in schema.arguments if a.is_out} | set(_OVERWRITTEN.get(name, ()))

    def __call__(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Run eager on arguments in schema order; return its outputs as a list."""
        named = dict(zip(self.names, arguments, strict=True))
        positional = [v for n, v in named.items() if n not in self.keyword]
        out = self.function(*positional, **{n: named[n] for n in self.names if n in self.keyword})
        return list(out) if isinstance(out, (tuple, list)) else [out]


@functools.cache
def overload(name: str) -> Overload:
    """Return the overload of this name, `aten::relu_`."""
    return Overload(name)


def slot_descriptors(call: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the input slots of a call: (argument's name, tensor descriptor), list elements in their place."""
    slots: list[tuple[str, dict[str, Any]]] = []
    for arg in call["args"]:
        if arg["kind"] == "tensor":
            slots.append((arg["name"], arg))
        elif arg["kind"] == "tensors":
            slots.extend((arg["name"], item) for item in arg["items"])
    return slots


def slot_tensors(call: dict[str, Any], arguments: Sequence[Any]) -> list[torch.Tensor]:
    """Return the tensors of the input slots out of arguments in schema order."""
    tensors: list[torch.Tensor] = []
    for arg, value in zip(call["args"], arguments, strict=True):
        if arg["kind"] == "tensor":
            tensors.append(value)
        elif arg["kind"] == "tensors":
            tensors.extend(value)
    return tensors


def with_tensors(
    call: dict[str, Any], tensors: Sequence[torch.Tensor], arguments: Sequence[Any] | None = None
) -> list[Any]:
    """Return arguments in schema order with these tensors in the input slots.

    Everything that is no slot is taken from `arguments` (a captured payload) if there are any, else made from the descriptors.
    """
    rest = iter(tensors)
    made: list[Any] = []
    for i, arg in enumerate(call["args"]):
        if arg["kind"] == "tensor":
            made.append(next(rest))
        elif arg["kind"] == "tensors":
            made.append([next(rest) for _ in arg["items"]])
        else:
            made.append(arguments[i] if arguments is not None else _value(arg))
    return made


def _value(arg: dict[str, Any]) -> Any:
    """Return the value of an argument that is no tensor slot."""
    kind = arg["kind"]
    if kind in ("undefined", "none"):
        return None
    if kind == "float" or (kind == "scalar" and arg["type"] == "float"):
        return struct.unpack("<d", int(arg["bits"], 16).to_bytes(8, "little"))[0]
    if kind in ("bool", "int", "string", "ints", "bools", "scalar"):
        return arg["value"]
    if kind == "dtype":
        return DTYPES[arg["value"]]
    if kind == "wrapped":
        dtype = DTYPES[arg["dtype"]]
        raw = bytearray(int(arg["bits"], 16).to_bytes(8, "little"))
        value = torch.frombuffer(raw, dtype=dtype, count=1).clone().reshape(())
        return value.item() if arg["wrapped_number"] else value
    raise RefereeFault(
        f"read the argument `{arg['name']}`: its kind is `{kind}` (expected one of docs/formats.md, `call`)"
    )


def map_tensors(arguments: Sequence[Any], change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    """Return arguments with every tensor, list elements included, replaced by `change(tensor)`."""

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return change(value)
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return [change(v) if isinstance(v, torch.Tensor) else v for v in value]
        return value

    return [one(v) for v in arguments]


def tensors_among(arguments: Sequence[Any]) -> list[torch.Tensor]:
    """Return every tensor of the arguments in order, list elements in their place."""
    found: list[torch.Tensor] = []

    def note(t: torch.Tensor) -> torch.Tensor:
        found.append(t)
        return t

    map_tensors(arguments, note)
    return found


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements lie between a tensor's first and last, both included; 0 if it has none."""
    if any(n == 0 for n in sizes):
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def span(tensor: torch.Tensor) -> torch.Tensor:
    """Return everything from a tensor's first element to its last as one dimension, on the same memory."""
    return tensor.detach().as_strided((extent(tensor.shape, tensor.stride()),), (1,), tensor.storage_offset())


def flat(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """Return tensors of one shape as one dimension each, in the order of their memory and without a copy; None where that is not the same order, or
    something lies between the elements.

    Example:
        >>> a = torch.arange(6).view(2, 3)
        >>> [t.tolist() for t in flat([a.t(), a.t()])], flat([a, a.t().contiguous().t()])
        ([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]], None)
    """
    first = tensors[0]
    if not _dense(first) or any(t.stride() != first.stride() for t in tensors):
        return None
    return [span(t) for t in tensors]


def _dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements are all of the memory between the first and the last, each once."""
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1):
        if stride != expected:
            return tensor.numel() == 0
        expected *= size
    return True


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """Return a private copy with the same strides, what lies between the elements included."""
    return span(tensor).clone().as_strided(tensor.shape, tensor.stride())


def copy_into(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Copy values into a tensor that may have dimensions of stride 0, which eager's copy_ refuses to write; return the target."""
    narrow_target, narrow_source = target, source
    for d in range(target.dim()):
        if target.stride(d) == 0 and target.size(d) > 1:
            narrow_target, narrow_source = narrow_target.narrow(d, 0, 1), narrow_source.narrow(d, 0, 1)
    narrow_target.copy_(narrow_source)
    return target
