"""How a command that comes after `kernelforge optimize` makes a study's model again: by what the study keeps of the command.

It owns what is kept. It refuses folders: a store that is passed on names none of its user's, so a file is looked for where the command is called.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _settings, _studies
from ._asked import Asked
from .errors import UsageFault

_ASKED = ("ops", "min_share", "candidates", "max_seconds", "tier", "review", "exact", "processes")


def origin_of(wanted: Any, threads: int | None, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a study keeps of the command that began it. A file goes without its folder: a store that is passed on names none of its user's.

    Args:
        wanted: the model options, `_model.Wanted`.
        threads: torch's threads that were asked for.
        asked: arguments of `optimize`.
    """
    where, colon, factory = wanted.spec.rpartition(":")
    spec = f"{Path(where).name}{colon}{factory}" if where.endswith(".py") else wanted.spec
    return {
        **dataclasses.asdict(wanted),
        "spec": spec,
        "threads": threads,
        "asked": {k: asked[k] for k in _ASKED},
    }


def made_again(
    study: str, store: str | os.PathLike[str] | None, model: str | None, progress: str | bool
) -> tuple[Any, Any, Asked]:
    """Return the model, its inputs and the wishes of a study that a command began.

    Raises:
        UsageFault: no such study, a program began it, or its file is not here.
    """
    from ._model import Wanted, make

    stored = _studies.load(study, store)
    origin = stored["origin"]
    if origin is None:
        raise UsageFault(
            f"open the study `{study}`: a program began it, not `kernelforge optimize`, so its model cannot be made again here",
            hint=f'open it in that program: `kernelforge.Study(model, inputs, study="{study}")`',
        )
    import torch

    spec = model or origin["spec"]
    where = spec.rpartition(":")[0]
    if where.endswith(".py") and not Path(where).expanduser().is_file():
        raise UsageFault(
            f"open the study `{study}`: its model is `{origin['spec']}`, and there is no file `{where}` here",
            hint="call this in the folder of that file, or name it with --model",
        )
    if origin["threads"] is not None:
        torch.set_num_threads(origin["threads"])
    options = {f.name: origin[f.name] for f in dataclasses.fields(Wanted)}
    wanted = Wanted(**{**options, "spec": spec})
    made = make(wanted)
    asked, result = origin["asked"], stored["result"] or {}
    ops = asked["ops"]
    return (
        made.model,
        made.inputs,
        Asked(
            **{**asked, "ops": ops if isinstance(ops, str) else tuple(ops)},
            study=study,
            store=_settings.store_path(store),
            seed=origin["seed"],
            out=result.get("pack"),
            fresh=False,
            progress=progress,
            name=stored["model"],
            note=made.note,
            origin=origin,
        ),
    )
