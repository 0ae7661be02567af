"""The doctor's checks of the sandbox: at each tier a worker and a compile process are started, and try from inside what their walls are worth.

It owns the words. The attempts are the worker program's own (`kernelforge-worker tiers`); what they promise is in docs/security.md.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable
from typing import Any

from . import _core, _nvrtc, _settings
from ._check import Check
from .errors import EnvironmentFault

HOST = -1  # as a device's ordinal
_PATIENCE_S = 150.0  # six processes and, on CUDA, three contexts
_HINTS = {
    1: "needs Landlock and seccomp: Linux 5.13 or newer, and a container that allows them",
    2: "needs tier 1 and user namespaces: many containers forbid those; tier 1 keeps the same things out",
}


@functools.cache
def tried(device: int) -> dict[int, dict[str, Any]]:
    """Return what the worker program found at each tier.

    Raises:
        EnvironmentFault: it is not built, or did not answer.
    """
    command = [str(_core.WORKER), "tiers", "--runtime", str(_core.RUNTIME), "--device", str(device)]
    if device == HOST:
        command += ["--cxx", _settings.compiler() or ""]
    else:
        command += ["--nvrtc", str(_nvrtc.find() or "")]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        rows: list[dict[str, Any]] = json.loads(done.stdout)["tiers"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as e:
        said = getattr(e, "stderr", None) or str(e)
        raise EnvironmentFault(
            f"try the sandbox: `{_core.WORKER.name}` did not answer: {said}", hint="build it: `make build`"
        ) from e
    return {row["tier"]: row for row in rows}


def row(name: str, tier: int, device: int, need: tuple[str, ...]) -> Check:
    """Return the doctor's row of one tier. need: the uses that do not work without tier 0."""
    found = tried(device)[tier]
    if not found["holds"]:
        return Check(
            name, False if tier == 0 else None, found["why"], _HINTS.get(tier, ""), need if tier == 0 else ()
        )
    best = tier == max(t for t, r in tried(device).items() if r["holds"])
    holds = "holds" + (", used by default" if best else "")
    if tier == 0:
        open_ = sorted({a["what"] for p in found["processes"] for a in p["attempts"] if not a["stopped"]})
        left = f"; a candidate could {', '.join(open_)}" if open_ else ""
        return Check(name, True, f"{holds}: against crashes, hangs and accidents{left}", "", need)
    words = ", ".join(
        f"{p['name']} {sum(a['stopped'] for a in p['attempts'])} of {len(p['attempts'])} attempts stopped"
        for p in found["processes"]
    )
    return Check(name, True, f"{holds}: {words}")


def checks(
    name: str, device: int, need: tuple[str, ...], there: Callable[[], bool]
) -> tuple[Callable[[], Check | None], ...]:
    """Return one check for each tier. there: whether the machine has what is tried."""

    def check_of(tier: int) -> Callable[[], Check | None]:
        def check() -> Check | None:
            return row(f"{name} {tier}", tier, device, need) if there() else None

        check.__name__ = f"{name} {tier}"
        return check

    return tuple(check_of(tier) for tier in _settings.TIERS)
