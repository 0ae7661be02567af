"""What of eager's own the guard fuzz cannot hold anybody to: calls whose values are chance in eager itself.

It refuses to say more: errors, types, strides and memory of such a call are compared like those of any other (guard_check.py).
"""

from __future__ import annotations

import math

import torch
from guard_changes import Draft

from kernelforge.referee.calls import overload, slot_descriptors

OF_CHANNELS = ("weight", "bias", "running_mean", "running_var")


def undefined(draft: Draft) -> bool:
    """Return whether eager's values are chance, so that twice the same is luck."""
    return _reads_past_a_parameter(draft) or _writes_what_it_reads(draft)


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
