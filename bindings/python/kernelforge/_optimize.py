"""`optimize` and `report`: the two functions that most users need.

It owns the user's words and which report belongs to which model. The steps are `_job.py`'s.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from . import _authors, _ext, _settings, _studies
from ._asked import CANDIDATES, PROCESSES, Asked
from ._callers import Author
from ._inputs import name_of
from ._job import Job
from ._report import Report
from .errors import UsageFault

log = logging.getLogger("kernelforge")
Model = TypeVar("Model", bound=Callable[..., Any])

_reports: weakref.WeakKeyDictionary[Any, Report] = weakref.WeakKeyDictionary()
_last: Report | None = None


def optimize(
    model: Model,
    inputs: Any,
    *,
    study: str | None = None,
    store: str | os.PathLike[str] | None = None,
    ops: str | Sequence[str] = "auto",
    min_share: float = 0.01,
    candidates: int = CANDIDATES,
    max_seconds: float | None = None,
    seed: int = 0,
    tier: int | None = None,
    review: bool = False,
    exact: bool = False,
    tell_inputs: bool = False,
    processes: int = PROCESSES,
    authors: str | Sequence[str | Author] = (),
    base_url: str | None = None,
    api_key_env: str | None = None,
    api_key_file: str | os.PathLike[str] | None = None,
    max_cost: float | None = None,
    max_tokens_in: int | None = None,
    max_tokens_out: int | None = None,
    calls_in_flight: int = _authors.IN_FLIGHT,
    price_file: str | os.PathLike[str] | None = None,
    author_settings: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: str | bool = "auto",
    name: str | None = None,
    note: str = "",
    origin: dict[str, Any] | None = None,
) -> Model:
    """Search faster kernels for a model's operators and serve those whose gain was confirmed; return the same model.

    The caller's modes hold: call it under `torch.no_grad()` or `torch.inference_mode()`, whichever the model will run under. Under the second a few
    operators are served whole (`max_pool2d` without its indices; on CUDA with torch before 2.14, `group_norm` of channels_last without a copy); such a
    plan does not serve under the first.

    Args:
        model: any callable; a module is not changed: buffers, training mode and random state are afterwards what they were.
        inputs: a tensor, a tuple of arguments, a dict of keyword arguments, or ((arguments), {keywords}).
        study: name of the study; default: made from model, shapes and machine. An unfinished study of the name is resumed.
        store: file of the store; default: `KERNELFORGE_HOME` or the XDG data folder.
        ops: "auto", or names of operators (patterns allowed): `["max_pool2d*", "aten::cat"]`; each must fit an operator that is hooked.
        min_share: least share of the forward's operator time, 0 to 1, that is worth a search.
        candidates: candidates an operator at most.
        max_seconds: seconds after which no candidate is begun and no further group of winners is measured on the model; None: until the candidates are
            used up. The profile, the candidate or confirmation in flight and the last measurement of the model come on top.
        seed: chance of inputs, order of timing and search.
        tier: sandbox tier of the processes that compile and run candidates, 0 to 2 (docs/security.md); None: the best that holds on this machine.
        review: leave winners proposed; only those that `kernelforge approve` has approved are served.
        exact: serve only plans that are bitwise equal to eager on everything judged.
        tell_inputs: tell authors roughly what each operator's inputs hold: mean, deviation, range and part of zeros, to two digits. Without it nothing of
            any value is told. Who begins a study chooses: `kernelforge ask` goes on to tell it.
        processes: fresh processes that serve all winners together before they are called winners: each winner must be faster in each of them. They cost
            one start (seconds) and a short timing each; 0: none, and the evidence says so.
        authors: who proposes candidates beside the templates: "openai:MODEL", a model behind any server of OpenAI's chat completions, or
            "replay:STUDY", a stored study that is run again without calling anybody; or a function, which gets a brief (docs/formats.md, `brief`) and returns
            `(source, spec)`, or None where it has nothing more below that parent; `spec["idea"]`, if there, says what is new. One that raises is asked no
            more; its traceback is logged. Operators without a template are open to authors.
        base_url: address of the server; None: OPENAI_BASE_URL, then OpenAI's.
        api_key_env, api_key_file: name of the variable, or of the file, that holds the key; None: OPENAI_API_KEY.
        max_cost: USD that authors may cost in this study, checked before each call with its worst case; 0: nobody is called; None: no limit.
        max_tokens_in, max_tokens_out: tokens likewise.
        calls_in_flight: calls of authors side by side.
        price_file: prices of models, over the shipped table (docs/authors.md).
        author_settings: what else docs/authors.md names: time-outs in seconds, attempts, rates a minute, temperature, tokens of a reply.
        out: folder of the pack: absent, empty, or a pack; default: in the packs folder beside the store. Without a winner none is written.
        fresh: forget what the study has and begin again.
        progress: "auto" (a bar on terminals), True or False.
        name, note: what reports call the model, and what they say about it.
        origin: what `kernelforge ask` and `submit` need to make the model again (`_origin.origin_of`); commands give it.

    Raises:
        UsageFault, ModelFault: no inputs, inputs on several devices, a model that raises, a study that is about another model or other calls.
        VerifyFault: with the winners the model's outputs are not as right as eager's; they are withdrawn, eager runs.
        EnvironmentFault: no compiler, extension or core; store or cache not writable; a tier that was asked for does not hold here.
        LockedFault: another process searches this study.
        Interrupted: Ctrl-C; what was measured is saved, the same call resumes.

    Example:
        >>> with torch.no_grad():
        ...     model = kernelforge.optimize(model, (x,))
        >>> print(kernelforge.report(model))
    """
    global _last
    if _settings.read().disabled:
        log.warning("KERNELFORGE_DISABLE is set: nothing is searched, eager runs")
        return model
    asked = Asked(
        study=study,
        store=_settings.store_path(store),
        ops=ops if isinstance(ops, str) else tuple(sorted(ops)),
        min_share=min_share,
        candidates=candidates,
        max_seconds=max_seconds,
        seed=seed,
        tier=tier,
        review=review,
        exact=exact,
        tell_inputs=tell_inputs,
        processes=processes,
        authors=_authors.checked(
            authors,
            base_url=base_url,
            api_key_env=api_key_env,
            api_key_file=api_key_file,
            max_cost=max_cost,
            max_tokens_in=max_tokens_in,
            max_tokens_out=max_tokens_out,
            in_flight=calls_in_flight,
            price_file=price_file,
            more=author_settings or {},
        ),
        out=out,
        fresh=fresh,
        progress=progress,
        name=name or name_of(model),
        note=note,
        origin=origin,
    )
    with _ext.measuring():
        report = Job(model, inputs, asked).run()
    try:
        _reports[model] = report
    except TypeError:
        log.debug("`%s` cannot be referred to weakly: report() without a model gives its report", asked.name)
    _last = report
    return model


def report(subject: Any = None, *, store: str | os.PathLike[str] | None = None) -> Report:
    """Return the report of a model that was optimized in this process, of a study by its name, or the last one.

    Raises:
        UsageFault: there is none.

    Example:
        >>> kernelforge.report(model).save("report.html")
    """
    if isinstance(subject, str):
        return _studies.stored_report(subject, store)
    try:
        found = _last if subject is None else _reports.get(subject)
    except TypeError:
        found = None
    if found is None:
        what = "no model was optimized" if subject is None else f"`{name_of(subject)}` was not optimized"
        raise UsageFault(
            f"report: {what} in this process",
            hint="call kernelforge.optimize first, or name a study: kernelforge.report('googlenet-...')",
        )
    return found
