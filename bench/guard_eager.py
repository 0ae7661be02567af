"""What of eager's own the guard fuzz cannot hold anybody to: calls whose values are chance in eager itself, and calls that break torch.

It refuses to say more: errors, types, strides and memory of a call of the first kind are compared like those of any other (guard_check.py),
but for memory beside the elements where `is_not_looked_at`. One of the
second kind is not made: what comes of it, the process's end included, depends on what lies beside the call's memory, and may come to calls after it.
Each rule is what torch does alone, without kernelforge (test_guard_eager.py shows it in processes of their own).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from guard_changes import Draft

from kernelforge.referee.calls import overload, slot_descriptors

OF_CHANNELS = ("weight", "bias", "running_mean", "running_var")


def breaks(draft: Draft) -> str:
    """Return how torch itself breaks at a call, or "" if it does not."""
    for broken in (_reads_past_a_list, _reads_past_lists, _reads_no_statistics, _shares_a_fake_mode):
        if broken(draft):
            return broken.__name__.strip("_").replace("_", " ")
    return ""


def _reads_past_a_list(draft: Draft) -> bool:
    """torch takes two numbers of NNPACK's padding and stride, however many there are: what lies behind them is a size, or a divisor."""
    return "nnpack" in draft.call["overload"] and any(
        a["kind"] == "ints" and len(a["value"]) < 2 for a in draft.call["args"]
    )


def _reads_past_lists(draft: Draft) -> bool:
    """torch takes a number of cuDNN's stride, padding and dilation for each size of the input behind its second, however many there are, and a size of the
    weight: `aten::convolution` has looked at them before it comes there."""
    if "cudnn_convolution" not in draft.call["overload"]:
        return False
    ranks = [
        len(d["sizes"]) for name, d in slot_descriptors(draft.call) if name in ("self", "input", "weight")
    ]
    lists = [len(a["value"]) for a in draft.call["args"] if a["kind"] == "ints"]
    return len(set(ranks)) != 1 or any(n != ranks[0] - 2 for n in lists)


def _reads_no_statistics(draft: Draft) -> bool:
    """A batch norm with a running statistic of no elements, which have no memory: torch reads at the null pointer."""
    sizes = {name: d["sizes"] for name, d in slot_descriptors(draft.call)}
    return "batch_norm" in draft.call["overload"] and any(
        n in sizes and math.prod(sizes[n]) == 0 for n in ("running_mean", "running_var")
    )


def _shares_a_fake_mode(draft: Draft) -> bool:
    """Fakes of one FakeTensorMode in several threads: it keeps what it is about in itself, and asserts that nobody else does."""
    return draft.way == "threads" and "fake" in draft.notes and bool(draft.wraps)


def chance(draft: Draft) -> Callable[[torch.Tensor], bool]:
    """Return what says of a value of eager's whether it is chance, so that twice the same is luck."""
    all_of_them, name = undefined(draft), str(draft.call["overload"])
    return lambda value: all_of_them or unwritten(name, value)


def undefined(draft: Draft) -> bool:
    """Return whether eager's values are chance, so that twice the same is luck."""
    return any(
        rule(draft)
        for rule in (
            _reads_past_a_parameter,
            _writes_what_it_reads,
            is_not_looked_at,
            _goes_back_by_unwritten,
        )
    )


def is_not_looked_at(draft: Draft) -> bool:
    """Another call than torch's own to what stands before cuDNN: types, sizes and numbers that do not fit together are read as they come,
    and written: memory beside the elements is not eager's to keep either."""
    return "cudnn_convolution" in draft.call["overload"] and bool(draft.notes)


def _goes_back_by_unwritten(draft: Draft) -> bool:
    """A derivative of attention takes the state of the random generator, which a call without dropout has not written."""
    return "_scaled_dot_product_" in draft.call["overload"] and "backward" in draft.notes


def unwritten(overload: str, value: torch.Tensor) -> bool:
    """Return whether a result is one that torch leaves as it finds it: the state of the random generator that attention without dropout does not use."""
    return (
        "_scaled_dot_product_" in overload and value.ndim <= 1 and value.dtype in (torch.int64, torch.uint64)
    )


def _reads_past_a_parameter(draft: Draft) -> bool:
    """A batch norm whose parameter has fewer elements than there are channels: torch does not look."""
    sizes = {name: d["sizes"] for name, d in slot_descriptors(draft.call)}
    if "batch_norm" not in draft.call["overload"] or len(sizes["input"]) < 2:
        return False
    return any(math.prod(sizes[n]) < sizes["input"][1] for n in OF_CHANNELS if n in sizes)


def _writes_what_it_reads(draft: Draft) -> bool:
    """Where each value needs others than its own, eager's threads race for them; torch leaves out= on the memory of an input undefined."""
    op = overload(draft.call["overload"]).function
    packet = op.overloadpacket
    if any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads()):
        return False  # the tag is missing on the forms with out=
    written = {a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    written |= {"running_mean", "running_var"}  # the older batch norms write them and do not say so
    names = draft.slot_names()
    return any(names[a] in written or names[b] in written for a, (b, _) in draft.shared.items())
