"""What the guard fuzz changes about a call: its description (sizes, dtypes, strides, scalars) and its tensors (address, layout, kind, aliases).

It owns drafts and the changes to them. Everything is drawn from the generator of one call, so that a draft can be made again from its seed and number.
It refuses to run anything: guard_ways.py says in which mode a call is made.
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelforge.referee.calls import DTYPES, extent, slot_descriptors

Call = dict[str, Any]
Wrap = Callable[[torch.Tensor], Any]

EXTRA = {"complex64": torch.complex64, "float8_e4m3fn": torch.float8_e4m3fn, "uint16": torch.uint16}
TYPES = DTYPES | EXTRA
OTHER_TYPES = ("float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", *EXTRA)


@dataclass
class Draft:
    """One call in the making. notes: the names of its changes, for messages.

    wraps      slot number -> what its tensor becomes, in order.
    shared     slot number -> (other slot, how): the tensor lies on another one's memory.
    modes      context managers around the call, the outermost first.
    way        how the call is made (guard_ways.py).
    """

    call: Call
    device: str
    chance: random.Random
    notes: list[str] = field(default_factory=list)
    wraps: dict[int, list[Wrap]] = field(default_factory=dict)
    shared: dict[int, tuple[int, str]] = field(default_factory=dict)
    modes: list[Callable[[], AbstractContextManager[Any]]] = field(default_factory=list)
    way: str = "plain"
    numbers: int = 0  # the seed of the tensors' values

    def slots(self) -> list[dict[str, Any]]:
        """Return the descriptors of the tensors, list elements in their place."""
        return [d for _, d in slot_descriptors(self.call)]

    def slot_names(self) -> list[str]:
        return [name for name, _ in slot_descriptors(self.call)]

    def wrap(self, slot: int, function: Wrap) -> None:
        self.wraps.setdefault(slot, []).append(function)

    def some_slots(self) -> list[int]:
        """Return one slot, or all of them."""
        count = len(self.slots())
        if count == 0:
            return []
        return list(range(count)) if self.chance.random() < 0.3 else [self.chance.randrange(count)]

    def tensors(self) -> list[Any]:
        """Return fresh tensors, the same at every call."""
        generator = torch.Generator().manual_seed(self.numbers)
        with torch.inference_mode(False), torch.no_grad():
            plain = [
                _tensor(name, d, generator, self.device)
                for name, d in zip(self.slot_names(), self.slots(), strict=True)
            ]
            for slot, (source, how) in self.shared.items():
                plain[slot] = _on_memory_of(plain[source], plain[slot], how)
            made: list[Any] = []
            for slot, t in enumerate(plain):
                for function in self.wraps.get(slot, []):
                    with torch.enable_grad():
                        t = function(t)
                made.append(t)
        return made


# ---- tensors from their description ------------------------------------------------------------------------------------------------


def _tensor(name: str, d: dict[str, Any], generator: torch.Generator, device: str) -> torch.Tensor:
    """Return a tensor of the described dtype, sizes and strides; variances are positive, what lies between elements is filled, too.

    Behind one whose elements share memory lies room for all of them: eager's softmax, among others, fills an `out` of stride 0 as if it were contiguous.
    """
    dtype, count = TYPES[d["dtype"]], extent(d["sizes"], d["strides"])
    values = torch.randn(max(count, 1), generator=generator)[:count]
    if dtype is torch.bool:
        flat = values > 0
    elif dtype.is_floating_point or dtype.is_complex:
        flat = (values.abs() + 0.5 if "var" in name else values).to(dtype)
    else:
        flat = (values * 3).abs().to(dtype)
    flat = torch.cat([flat, flat.new_zeros(max(0, math.prod(d["sizes"]) - count))])
    return flat.to(device).as_strided(d["sizes"], d["strides"])


def _on_memory_of(source: torch.Tensor, t: torch.Tensor, how: str) -> torch.Tensor:
    """Return a tensor that shares memory with `source`: the same object, an equal view, its transpose, one shifted by an element, or all of one row."""
    if how == "same":
        return source
    if how == "view":
        return source.view_as(source)
    if how == "transposed" and source.dim() >= 2:
        return source.transpose(0, 1) if source.shape[0] == source.shape[1] else source.transpose(-1, -2)
    if how == "shifted" and source.is_contiguous():
        room = torch.cat([source.reshape(-1), source.reshape(-1)[:1]])
        source.set_(room.untyped_storage(), 0, source.shape, source.stride())
        return room[1:].view(source.shape)
    if how == "row" and source.dim() >= 1 and source.shape[0] > 0:
        return source[:1].expand_as(source)
    return (
        t.set_(source.untyped_storage(), source.storage_offset(), source.shape, source.stride())
        if t.dtype == source.dtype
        else source
    )


def dense_strides(sizes: list[int], like: list[int] | None = None) -> list[int]:
    """Return strides without gaps, the dimensions in the order of other strides of the same rank."""
    order = list(range(len(sizes)))
    if like:
        order.sort(key=lambda i: -like[i])
    strides, step = [0] * len(sizes), 1
    for i in reversed(order):
        strides[i] = step
        step *= max(sizes[i], 1)
    return strides


def _resize(d: dict[str, Any], sizes: list[int]) -> None:
    d["strides"] = dense_strides(sizes, d["strides"] if len(d["strides"]) == len(sizes) else None)
    d["sizes"] = sizes


# ---- changes of the description --------------------------------------------------------------------------------------------------


def size(draft: Draft) -> None:
    """One size one off, of one tensor or of all that have it."""
    slots = [d for d in draft.slots() if d["sizes"]]
    if not slots:
        return
    d = draft.chance.choice(slots)
    at = draft.chance.randrange(len(d["sizes"])) - len(d["sizes"])
    old, step = d["sizes"][at], draft.chance.choice((-1, 1, 1, 7))
    everywhere = draft.chance.random() < 0.6
    for other in slots if everywhere else [d]:
        sizes = list(other["sizes"])
        for i in range(-len(sizes), 0):
            if (i == at or everywhere) and sizes[i] == old:
                sizes[i] = max(0, old + step)
        if sizes != other["sizes"]:
            _resize(other, sizes)


def empty(draft: Draft) -> None:
    """A dimension of length 0, of one tensor or of all that have that dimension."""
    slots = [d for d in draft.slots() if d["sizes"]]
    if not slots:
        return
    d = draft.chance.choice(slots)
    at = draft.chance.randrange(len(d["sizes"])) - len(d["sizes"])
    for other in slots if draft.chance.random() < 0.5 else [d]:
        if len(other["sizes"]) >= -at:
            sizes = list(other["sizes"])
            sizes[at] = 0
            _resize(other, sizes)


def huge(draft: Draft) -> None:
    """The leading dimension as long as 2^20 elements allow, as memory or as strides of 0."""
    slots = [d for d in draft.slots() if d["sizes"]]
    count = max((math.prod(d["sizes"][1:]) for d in slots), default=0)
    if not slots or count == 0:
        return
    old, long = slots[0]["sizes"][0], max(2, (1 << 20) // count)
    flat = draft.chance.random() < 0.5
    for d in slots:
        if d["sizes"][0] == old:
            sizes = [long, *d["sizes"][1:]]
            strides = list(d["strides"])
            _resize(d, sizes)
            if flat:
                d["strides"] = [0, *strides[1:]]


def dtype(draft: Draft) -> None:
    """Another element type, of one tensor or of all floating ones."""
    new = draft.chance.choice(OTHER_TYPES)
    slots = draft.slots()
    for i in draft.some_slots():
        if len(draft.some_slots()) == 1 or slots[i]["dtype"] != "bool":
            slots[i]["dtype"] = new
    for a in draft.call["args"]:
        if a["kind"] == "dtype" and draft.chance.random() < 0.5:
            a["value"] = draft.chance.choice(("float64", "float32", "bfloat16"))


def strides(draft: Draft) -> None:
    """The same sizes, otherwise in memory: transposed, with gaps, channels last, expanded, or a size-1 dimension with an odd stride."""
    slots = [draft.slots()[i] for i in draft.some_slots()]
    how = draft.chance.choice(("transposed", "gaps", "last", "expanded", "odd_one"))
    for d in slots:
        sizes, rank = d["sizes"], len(d["sizes"])
        if how == "transposed" and rank >= 2:
            order = list(range(rank))
            draft.chance.shuffle(order)
            d["strides"] = dense_strides(sizes, order)
        elif how == "gaps" and rank >= 1:
            d["strides"] = [2 * s for s in dense_strides(sizes)]
        elif how == "last" and rank == 4:
            _, c, h, w = sizes
            d["strides"] = [c * h * w, 1, c * w, c]
        elif how == "expanded" and rank >= 1:
            d["strides"][draft.chance.randrange(rank)] = 0
        elif how == "odd_one" and 1 in sizes:
            d["strides"][sizes.index(1)] = draft.chance.choice((0, 3, 1 << 20))


def rank(draft: Draft) -> None:
    """One dimension more or fewer, in front."""
    slots = draft.slots()
    for i in draft.some_slots():
        d = slots[i]
        if draft.chance.random() < 0.5 and d["sizes"]:
            d["sizes"], d["strides"] = d["sizes"][1:], d["strides"][1:]
        else:
            d["sizes"] = [1, *d["sizes"]]
            d["strides"] = dense_strides(d["sizes"])


NUMBERS = (0, 1, -1, 2, 3, True, False, 0.0, -0.0, 0.5, 1.0, -1.5, 1e30, math.inf, math.nan)


def scalar(draft: Draft) -> None:
    """Another value of an argument that is no tensor."""
    args = [
        a
        for a in draft.call["args"]
        if a["kind"] in ("scalar", "float", "int", "bool", "ints", "string", "none")
    ]
    if not args:
        return
    a = draft.chance.choice(args)
    kind = a["kind"]
    if kind in ("scalar", "float"):
        value = draft.chance.choice(NUMBERS)
        _number(a, value if kind == "scalar" else float(value))
    elif kind == "int":
        a["value"] += draft.chance.choice((-1, 1, 2, -2, 1 << 33))
    elif kind == "bool":
        a["value"] = not a["value"]
    elif kind == "ints" and a["value"]:
        value = list(a["value"])
        value[draft.chance.randrange(len(value))] += draft.chance.choice((-1, 1, 2))
        a["value"] = value if draft.chance.random() < 0.8 else value[:-1]
    elif kind == "string":
        a["value"] = draft.chance.choice(("none", "tanh", "other"))
    elif kind == "none":
        _number(a, draft.chance.choice(NUMBERS))
        a["kind"] = "scalar"


def _number(a: Call, value: Any) -> None:
    a["type"] = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    a["value"] = value
    if isinstance(value, float):
        a["bits"] = struct.pack(">d", value).hex()


def number(draft: Draft) -> None:
    """A Python number or a 0-dim tensor where a tensor was."""
    args = [a for a in draft.call["args"] if a["kind"] in ("tensor", "wrapped")]
    if not args:
        return
    a = draft.chance.choice(args[1:] or args)
    name = a["name"]
    if draft.chance.random() < 0.4:
        a.clear()
        a.update(
            name=name,
            kind="tensor",
            dtype=draft.chance.choice(("float32", "float64", "int64")),
            sizes=[],
            strides=[],
        )
        return
    a.clear()
    kind = draft.chance.choice(("float64", "int64", "bool"))
    value = draft.chance.choice(NUMBERS[:10])
    form = {"float64": "<d", "int64": "<q", "bool": "<?7x"}[kind]
    raw = struct.pack(form, {"float64": float, "int64": int, "bool": bool}[kind](value))
    a.update(
        name=name,
        kind="wrapped",
        dtype=kind,
        wrapped_number=draft.chance.random() < 0.8,
        bits=raw[::-1].hex(),
    )


def optional(draft: Draft) -> None:
    """A tensor left out, or a list of tensors with more or fewer elements, up to more than a guard holds."""
    args = [a for a in draft.call["args"] if a["kind"] in ("tensor", "tensors")]
    a = draft.chance.choice(args) if args else None
    if a is None:
        return
    if a["kind"] == "tensors":
        count = draft.chance.choice((0, 1, 3, 70))
        a["items"] = [dict(a["items"][i % len(a["items"])]) for i in range(count)]
    elif a["name"] not in ("self", "input"):
        name = a["name"]
        a.clear()
        a.update(name=name, kind="none")


# ---- changes of tensors -----------------------------------------------------------------------------------------------------------


def offset(draft: Draft) -> None:
    """The same values 1 to 15 bytes behind an aligned address; on CUDA in whole elements, since eager itself needs those."""
    count = draft.chance.randint(1, 15)
    cuda = draft.device == "cuda"
    for slot in draft.some_slots():
        draft.wrap(slot, lambda t: shifted(t, count, cuda))


def shifted(t: torch.Tensor, count: int, whole: bool) -> torch.Tensor:
    """Return a tensor of the same values and strides that begins `count` bytes behind a multiple of 64; a quantized one stays where it is, since torch makes
    none at an address that is broken at its first view."""
    if t.is_quantized:
        return t
    size = t.element_size()
    span = extent(t.shape, t.stride())
    flat, most = t.as_strided((span,), (1,)), max(span, t.numel())
    if whole or t.is_complex():
        step = max(1, count // size)
        room = torch.zeros(most + step, dtype=t.dtype, device=t.device)
        room[step : step + span].copy_(flat)
        return room.as_strided(t.shape, t.stride(), step)
    room = torch.zeros(most * size + 128, dtype=torch.uint8)
    start = room.data_ptr() + (-room.data_ptr()) % 64 + count
    view = torch.frombuffer((ctypes.c_uint8 * max(span * size, 1)).from_address(start), dtype=torch.uint8)
    _rooms.append(room)
    del _rooms[:-256]  # the memory outlives every tensor of its call
    made = torch.frombuffer((ctypes.c_uint8 * max(span * size, size)).from_address(start), dtype=t.dtype)[
        :span
    ]
    view[: span * size].copy_(flat.contiguous().view(torch.uint8).reshape(-1))
    return made.as_strided(t.shape, t.stride())


_rooms: list[torch.Tensor] = []


def alias(draft: Draft) -> None:
    """Two arguments on one memory: the same tensor, an equal view, its transpose, one element apart, one row for all."""
    count = len(draft.slots())
    if count < 2:
        return
    a, b = draft.chance.sample(range(count), 2)
    how = draft.chance.choice(("same", "view", "transposed", "shifted", "row", "same"))
    draft.shared[max(a, b)] = (min(a, b), how)


def grad(draft: Draft) -> None:
    """A tensor that asks for a gradient: a leaf, the result of an operation, a view of a leaf, or a parameter."""
    how = draft.chance.choice(("leaf", "result", "view", "parameter"))

    def ask(t: torch.Tensor) -> torch.Tensor:
        if not (t.is_floating_point() or t.is_complex()):
            return t
        if how == "parameter":
            return torch.nn.Parameter(t)
        leaf = t.requires_grad_()
        return leaf if how == "leaf" else leaf * 1 if how == "result" else leaf.view_as(leaf)

    for slot in draft.some_slots():
        draft.wrap(slot, ask)


DESCRIPTION = (size, empty, huge, dtype, strides, rank, scalar, number, optional)
TENSORS = (offset, alias, grad)
