"""One answer of the doctor."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Check:
    """What was looked at and found. ok None: it works without, less well. need: the uses that it is needed for."""

    name: str
    ok: bool | None
    found: str
    hint: str = ""
    need: tuple[str, ...] = field(default=())
