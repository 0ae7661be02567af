"""A failing node as a folder that runs alone: candidate, launch spec, card, the input it failed on, and a script that has the judge say the same.

It owns the folder's form (docs/formats.md, `repro`) and both ways: `write` makes one out of a store, `run` judges what lies in one. It refuses captured
data: what a model was given never leaves, an input is drawn again from what the verdict recorded of it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import __version__, _core, _ext, _needs, _pack, _search, _settings, _studies
from ._place import HOST, Place
from ._progress import Progress
from .errors import UsageFault

_SCHEMA = 1
_RUN = '''"""Judge this candidate again: `python run.py`. Needs torch and kernelforge, and for a cuda candidate the device."""

from pathlib import Path

from kernelforge import _repro

raise SystemExit(_repro.main(Path(__file__).parent))
'''


def write(
    study: str, run: str, number: int, store: str | os.PathLike[str] | None, folder: Path
) -> dict[str, Any]:
    """Write the folder of a node and return what `case.json` says.

    Args:
        run: a card's id.
        folder: is made; it must not exist, or be empty.

    Raises:
        UsageFault: the node is eager itself, or something lies in the folder.
    """
    node = _studies.node(study, run, number, store)
    candidate, card, verdict = node["candidate"], node["card"], node["verdict"]
    if candidate is None:
        raise UsageFault(
            f"reproduce node {number} of `{card['overload']}`: it is the root, eager itself (expected 1 or more)"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageFault(f"write `{folder}`: something is there", hint="name a new folder with -o")
    at = verdict.get("at")
    own = [v for v in card["variants"] if at is None or v["id"] == at["variant"]]
    card = {**card, "variants": own or card["variants"], "share": 1.0}
    about = {
        "schema": _SCHEMA,
        "study": study,
        "node": number,
        "verdict": verdict,
        "inputs": _inputs_in_words(verdict),
        "kernelforge": __version__,
    }
    files = {
        "card.json": _text(card),
        "candidate.json": _text({**candidate, "source": ""}),
        "spec.json": _text(candidate["spec"]),
        f"source.{_suffix(card)}": candidate["source"],
        "case.json": _text(about),
        "run.py": _RUN,
        "README.md": _readme(card, about),
    }
    for name, text in files.items():
        _settings.writable_folder(folder, "reproduction", hint="name another folder with -o")
        (folder / name).write_text(text)
    if at is not None:
        _write_inputs(folder, card["variants"][0]["call"], at)
    return about


def _text(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def _suffix(card: dict[str, Any]) -> str:
    return "cu" if card["target"] == "cuda" else "cc"


def _inputs_in_words(verdict: dict[str, Any]) -> str:
    at = verdict.get("at")
    if at is None:
        return "none: it failed before it ran; the judge draws inputs of its own"
    like = (
        "like the captured ones (their moments were recorded)"
        if at.get("moments")
        else "of a standard normal"
    )
    if at["kind"] in ("", "captured"):
        return f"drawn from seed {at['seed']}, {like}, in place of the captured data, which does not leave the process that captured it"
    return f"the recorded case drawn again: {at['kind']} {at['number']} of seed {at['seed']}, {like}"


def _readme(card: dict[str, Any], about: dict[str, Any]) -> str:
    verdict, at = about["verdict"], about["verdict"].get("at")
    where = (
        f"\nvariant `{at['variant']}`, {at['kind'] or 'any'} input {at['number']}, run {at['run']}"
        if at
        else ""
    )
    return f"""# Node {about["node"]} of `{card["overload"]}`: {verdict["status"]}

Gate: `{verdict.get("gate") or "none"}`{where}

    {verdict["detail"]}

`python run.py` has the judge of the installed kernelforge say it again (exit code 0: the same status; 1: another).

| file | holds |
|---|---|
| `source.{_suffix(card)}`, `spec.json` | the candidate: code and launch spec |
| `candidate.json` | the same with its origin; the source lies beside it |
| `card.json` | the call: overload, dtypes, sizes, strides, scalars |
| `inputs/` | one raw file a tensor, row after row as `inputs.json` says: {about["inputs"]} |
| `case.json` | the verdict, and where it came from: study `{about["study"]}`, kernelforge {about["kernelforge"]} |
"""


def _write_inputs(folder: Path, call: dict[str, Any], at: dict[str, Any]) -> None:
    """Draw the input of a case and write each slot's memory as raw bytes, with a header in JSON."""
    import torch

    from .referee.calls import span
    from .referee.cases import Variant

    (folder / "inputs").mkdir()
    variant = Variant(call, None, at["seed"], moments=at.get("moments"))
    drawn = (at["kind"], at["number"]) if at["kind"] not in ("", "captured") else ("fresh", 0)
    headers = []
    for i, (slot, tensor) in enumerate(zip(variant.slots, variant.draw(*drawn), strict=True)):
        raw = (
            span(tensor).contiguous().view(torch.uint8)
            if tensor.numel()
            else torch.empty(0, dtype=torch.uint8)
        )
        name = f"{i}-{slot.name}.bin"
        (folder / "inputs" / name).write_bytes(raw.numpy().tobytes())
        dtype = str(slot.dtype).removeprefix("torch.")
        headers.append({"file": name, "dtype": dtype, "sizes": slot.sizes, "strides": slot.strides})
    (folder / "inputs" / "inputs.json").write_text(_text(headers))


def _read_inputs(folder: Path, place: Place) -> list[Any] | None:
    """Return the tensors of the input slots, None where the candidate failed before it ran."""
    import torch

    from .referee.calls import DTYPES, extent

    if not (folder / "inputs" / "inputs.json").exists():
        return None
    tensors = []
    for header in json.loads((folder / "inputs" / "inputs.json").read_text()):
        dtype, size = DTYPES[header["dtype"]], extent(header["sizes"], header["strides"])
        raw = bytearray((folder / "inputs" / header["file"]).read_bytes())
        if len(raw) != size * dtype.itemsize:
            raise UsageFault(
                f"read `{header['file']}`: {len(raw)} bytes (expected {size * dtype.itemsize}, as `inputs.json` says)"
            )
        flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        tensors.append(flat.to(place.device).as_strided(header["sizes"], header["strides"]))
    return tensors


class _Given:
    """What the referee needs of a profile: one card whose captured payload is the folder's input."""

    def __init__(self, card: dict[str, Any], tensors: Sequence[Any] | None) -> None:
        self.cards, self._tensors = [card], tensors

    def payload(self, card: str, variant: str) -> list[Any] | None:
        from .referee.calls import with_tensors

        found = next(v for v in self.cards[0]["variants"] if v["id"] == variant)
        return None if self._tensors is None else with_tensors(found["call"], self._tensors)

    def align(self, card: str, variant: str) -> list[int]:
        return []


def run(folder: Path) -> dict[str, Any]:
    """Judge the candidate of a folder, and return its verdict.

    Raises:
        UsageFault: the folder is no reproduction, or needs another thread count.
        EnvironmentFault: no compiler, no device.
    """
    try:
        card = json.loads((folder / "card.json").read_text())
        about = json.loads((folder / "case.json").read_text())
        candidate = json.loads((folder / "candidate.json").read_text())
        candidate["source"] = (folder / f"source.{_suffix(card)}").read_text()
    except (OSError, ValueError) as e:
        raise UsageFault(f"reproduce `{folder}`: it is no folder of `kernelforge repro`: {e}") from e
    import torch

    from .referee import Referee

    place = Place(torch.cuda.current_device()) if card["target"] == "cuda" else HOST
    if not place.cuda:
        torch.set_num_threads(card["threads"])
    compiler = _needs.compiler(place)
    _ext.load()
    at = about["verdict"].get("at")
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad(), place.current(), _pack.disabled():
        store, study = os.path.join(scratch, "repro.db"), "repro"
        given = _Given(card, _read_inputs(folder, place))
        with (
            _search.opened(
                study,
                "study.start",
                store=store,
                study=study,
                target=place.target,
                model=str(about["study"]),
                cards=[card],
                pins={},
                candidates=[candidate],
                settings={
                    "seed": at["seed"] if at else 0,
                    "candidates": 1,
                    "min_gain": 0,
                    "worker": str(_core.WORKER),
                    "runtime": str(_core.RUNTIME),
                    "scratch": scratch,
                    **_needs.tools(place, compiler),
                },
            ),
            Referee(given, seed=0, place=place) as referee,
        ):

            def execute(task: dict[str, Any]) -> dict[str, Any]:
                if task["kind"] == "confirm":  # it passed where it had failed: there is nothing to serve
                    return _unconfirmed()
                return referee.execute(task)

            _search.drive(study, execute, Progress(False))
        return dict(_core.call("store.node", store=store, study=study, run=card["id"], node=1)["verdict"])


def _unconfirmed() -> dict[str, Any]:
    return {
        "eager_ns": [],
        "ours_ns": [],
        "aa_ns": [[], []],
        "status": "rejected",
        "detail": "a reproduction serves nothing",
        "rule": 0,
    }


def main(folder: Path) -> int:
    """Judge a folder's candidate again and say what came of it; 0 where the status is the recorded one."""
    was = json.loads((folder / "case.json").read_text())["verdict"]
    now = run(folder)
    print(f"recorded: {was['status']}: {was['detail']}")
    print(f"now:      {now['status']}: {now['detail']}")
    return 0 if now["status"] == was["status"] else 1
