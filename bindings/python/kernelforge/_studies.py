"""Studies as the store has them: list, result, tree, approval. Everything goes through the core, never through Python's sqlite3 (two SQLite
libraries in one process break each other's locks).

It owns reading and the words for what was read. It refuses to search and to publish; it needs neither torch nor the extension.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from . import _core, _settings
from ._report import Report
from .errors import PackFault, UsageFault


def studies(store: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Return all studies of a store, the newest first; [] if there is no store."""
    path = _settings.store_path(store)
    if not path.exists():
        return []
    listed: list[dict[str, Any]] = _core.call("store.studies", store=str(path))["value"]
    return listed


def find(study: str | None, store: str | os.PathLike[str] | None) -> dict[str, Any] | None:
    """Return what `studies` says of one study, or None."""
    return next((s for s in studies(store) if s["study"] == study), None)


def load(study: str, store: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return runs, spend and result of a study.

    Raises:
        UsageFault: there is no such study.
    """
    _named(study, store)
    path = _settings.store_path(store)
    found = _core.call("store.study", store=str(path), study=study)
    if found["result"]:
        found["result"] = _from_store(found["result"], path)
    return found


def keep(study: str, store: str, result: dict[str, Any]) -> None:
    """Store the result of a study, without the places in which store and pack lie: a store that is passed on does not name its user's folders."""
    pack = result["pack"] and os.path.relpath(result["pack"], Path(store).parent)
    kept = {**{k: v for k, v in result.items() if k != "store"}, "pack": pack}
    _core.call("store.result", store=store, study=study, result=kept)


def _from_store(result: dict[str, Any], store: Path) -> dict[str, Any]:
    """Return a stored result with the places as they are now."""
    pack = result.get("pack")
    return {**result, "store": str(store), "pack": pack and os.path.normpath(store.parent / pack)}


def _named(study: str | None, store: str | os.PathLike[str] | None) -> str:
    known = studies(store)
    path = _settings.store_path(store)
    if not known:
        raise UsageFault(
            f"read the store `{path}`: it has no study",
            hint="`kernelforge demo` or `kernelforge optimize MODEL` makes one",
        )
    if study is None:
        return str(known[0]["study"])
    if all(s["study"] != study for s in known):
        names = ", ".join(s["study"] for s in known[:6])
        raise UsageFault(
            f"read the study `{study}` of `{path}`: there is no such study (found {names})",
            hint="`kernelforge show` lists all",
        )
    return study


def stored_report(study: str | None, store: str | os.PathLike[str] | None) -> Report:
    """Return the report of a study that has a result; of the newest such study if none is named.

    Raises:
        UsageFault: no such study, or it has not come to a result.
    """
    if study is not None:
        name = _named(study, store)
        result = load(name, store).get("result")
        if not result:
            raise UsageFault(
                f"report the study `{name}`: it has no result yet",
                hint="call the same optimize again: it resumes; `kernelforge show` tells how far it is",
            )
        return Report(result)
    _named(None, store)
    for s in studies(store):
        result = load(s["study"], store).get("result")
        if result:
            return Report(result)
    raise UsageFault(
        f"report from `{_settings.store_path(store)}`: no study has a result yet",
        hint="`kernelforge show` lists the studies",
    )


def node(study: str, run: str, number: int, store: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return candidate, verdict, lineage and log of one node."""
    return _core.call("store.node", store=str(_settings.store_path(store)), study=study, run=run, node=number)


def verdicts(run: dict[str, Any]) -> dict[str, int]:
    """Return how a run's candidates ended: {status: count}. Node 0 is eager, no candidate."""
    return dict(Counter(n["status"] for n in run["nodes"] if n["node"] != 0).most_common())


def path_to(run: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the nodes from the root's child down to a node."""
    by_number = {n["node"]: n for n in run["nodes"]}
    path: list[dict[str, Any]] = []
    while number in by_number and number != 0:
        path.append(by_number[number])
        number = by_number[number]["parent"]
    return path[::-1]


def trees(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tree of each run in short, for reports: counts, the best cost, and the path to the best node."""
    out = []
    for run in runs:
        # The root is eager, cost 1; it is no candidate.
        best = min(
            (n for n in run["nodes"] if n["status"] == "ok" and n["node"] != 0),
            key=lambda n: n["cost"],
            default=None,
        )
        steps = path_to(run, best["node"]) if best else []
        out.append(
            {
                "card": run["card"],
                "op": run["overload"],
                "nodes": len(run["nodes"]) - 1,
                "verdicts": verdicts(run),
                "best": best["cost"] if best else None,
                "path": [
                    {k: s.get(k) for k in ("node", "family", "change", "cost", "status")} for s in steps
                ],
            }
        )
    return out


def take_approvals(study: str, store: str | os.PathLike[str], pack: Path) -> None:
    """Tell a study which of its waiting winners were approved in its pack's folder alone, so that the pack that it writes next has them approved."""
    from ._folder import read

    try:
        document = read(pack)
    except PackFault:
        return  # there is none, or nothing in it is to be believed
    if document.get("study") != study:
        return
    waiting = set(load(study, store)["waiting"])
    by: dict[str, list[str]] = {}
    for plan in document["plans"]:
        if plan["state"] == "approved" and plan.get("approved_by") and plan["id"] in waiting:
            by.setdefault(str(plan["approved_by"]), []).append(plan["id"])
    for who, plans in by.items():
        _core.call("store.approve", store=str(store), study=study, plans=plans, by=who)


def approve_study(
    study: str, store: str | os.PathLike[str] | None, plans: list[str] | None, by: str
) -> tuple[Path, list[str]]:
    """Approve proposed winners of a study and write them into its pack; return the pack's folder and the ids.

    Raises:
        UsageFault: no such study, or an id that it does not have.
    """
    from . import _pack

    path = str(_settings.store_path(store))
    found = load(study, store)
    wanted = found["waiting"] if plans is None else plans
    if wanted:
        _core.call("store.approve", store=path, study=study, plans=wanted, by=by)
    pack = (found["result"] or {}).get("pack")
    folder = Path(pack) if pack else _settings.read().pack_folder / study
    if (folder / "pack.json").exists() and wanted:
        _pack.approve(folder, wanted)
    return folder, list(wanted)
