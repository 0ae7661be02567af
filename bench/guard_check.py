"""One call of the guard fuzz: made from its seed and number, run with plans and without, compared, and its fall-backs accounted for.

It owns what "equals eager" means here: the same error, or the same values, types, strides, flags and aliases, in results and in everything that was
given. Where no plan ran, bit for bit; where one did, by the referee's rule (docs/tolerance.md), or, behind a way that makes another call of it (a
derivative, a mapped axis), within a few roundings of the largest value. And: a plan served only calls of exactly its description, a call of exactly a plan's
description never found "no match", and every call that came to a hook with plans was counted with a plan or a reason.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import guard_changes as changes
import guard_ways as ways
import torch
from guard_calls import Base
from guard_changes import Draft
from guard_eager import breaks, chance, is_not_looked_at
from guard_memory import Extent, extents_of, unclaimed
from guard_values import close, first, largest, same
from torch._subclasses.fake_tensor import FakeTensor

import kernelforge
from kernelforge import _ext
from kernelforge.errors import RefereeFault
from kernelforge.referee.calls import overload, with_tensors
from kernelforge.referee.cases import bounds_of

# What torch itself computes once and remembers, so that a second run has fewer calls.
_CACHED = {"fake", "make_fx fake", "make_fx symbolic"}

_TRACED = 3  # every third call is traced, too: it is made once more for that

# change -> weight; the kind of what is changed is drawn by these, then each change draws for itself
CHANGES = [(c, 0.5 if c is changes.huge else 3.0) for c in changes.DESCRIPTION] + [
    (changes.offset, 3.0),
    (changes.alias, 4.0),
    (changes.grad, 3.0),
    (ways.kind, 8.0),
    (ways.mode, 6.0),
    (ways.way, 6.0),
]


def overload_of(bases: list[Base], number: int) -> str:
    """Return the overload that a number calls."""
    names = list(dict.fromkeys(b.name for b in bases))
    return names[number % len(names)]


def draft_of(bases: list[Base], device: str, seed: int, number: int) -> Draft:
    """Return the call of a number. The overloads take turns; what happens to each is chance."""
    chance, name = random.Random(f"{seed}/{number}"), overload_of(bases, number)
    base = chance.choice([b for b in bases if b.name == name])
    numbers = chance.randrange(1 << 31)
    draft = Draft(copy.deepcopy(base.call), device, chance, numbers=numbers)
    for _ in range(chance.choices((0, 1, 2, 3), (1.5, 6, 2, 0.5))[0]):
        change = chance.choices([c for c, _ in CHANGES], [w for _, w in CHANGES])[0]
        if change is changes.rank and "nnpack" in name:
            continue  # torch reads a fourth size, whether there is one or not
        draft.notes.append(change.__name__)
        change(draft)
    try:
        draft.tensors()
    except Exception:  # no such tensor: an empty one as csr, an integer one as quantized
        draft.notes.append("plain tensors after all")
        draft.wraps.clear()
        draft.shared.clear()
    if why := breaks(draft):
        return Draft(copy.deepcopy(base.call), device, chance, [f"torch {why}"], numbers=numbers)
    return draft


# ---- one run ------------------------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What came of a call: an error, or its results; and what had been given to it, afterwards."""

    error: str = ""
    results: list[Any] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)
    facts: list[Any] = field(
        default_factory=list
    )  # of results and given: all that can be said without values
    values: list[torch.Tensor] = field(default_factory=list)
    lay: list[Extent] = field(default_factory=list)  # where what was given lay before the call
    memory: list[torch.Tensor] = field(default_factory=list)  # bytes behind what was given


_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\bat [0-9a-f]{8,}\b|_\d+\b|\bj\d+\b")


_TRIED = re.compile(
    r'\{"engineId"| cudnn_status:'
)  # cuDNN goes on with what it has tried, which is another thing each time


def run(draft: Draft) -> Run:
    """Make the call once, on fresh tensors."""
    found = Run()
    made = overload(draft.call["overload"])
    with _ext.load().thread_off():
        found.given = draft.tensors()
        found.lay = extents_of(found.given)

    def call(*tensors: Any) -> Any:
        outs = made(with_tensors(draft.call, tensors))
        return outs[0] if len(outs) == 1 else tuple(outs)

    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stack.enter_context(torch.no_grad())
        try:
            for mode in draft.modes:
                stack.enter_context(mode())
            out = ways.WAYS[draft.way][0](call, found.given)
            found.results = _flat(out)
        except Exception as e:  # whatever eager raises must be raised with plans, too
            found.error = f"{type(e).__name__}: {_ADDRESS.sub('_', _TRIED.split(str(e))[0])[:600]}"
    if draft.device == "cuda":
        torch.cuda.synchronize()
    return found


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [v for item in value for v in _flat(item)]
    return [value]


def look(found: Run) -> None:
    """Note all that can be compared; runs with plans off."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extents = {*found.lay, *extents_of(found.given)}
        for i, t in enumerate([*found.results, *found.given]):
            result = i < len(found.results)
            if not isinstance(t, torch.Tensor):
                found.facts.append(repr(t))
                continue
            same = [k for k, g in enumerate(found.given) if g is t]
            try:
                found.facts.append([*_facts(t), same if result else []])
                found.values += _values(t)
                if not result:
                    found.memory += unclaimed(t, extents)
            except (
                RuntimeError,
                NotImplementedError,
            ) as e:  # a negative view of booleans, a view that no_grad broke: nobody can read it
                found.facts.append(f"unreadable: {_ADDRESS.sub('_', str(e))[:200]}")


def _facts(t: torch.Tensor) -> list[Any]:
    facts: list[Any] = [type(t).__name__, str(t.dtype), str(t.layout), str(t.device)]
    try:
        made_by = type(t.grad_fn).__name__
    except RuntimeError as e:  # a view that was written under no_grad
        made_by = str(e)[:60]
    facts += [t.requires_grad, made_by, t.is_neg(), t.is_conj(), torch._is_zerotensor(t), t.is_inference()]
    if not t.is_nested:
        facts.append([str(s) for s in t.shape])
        if t.layout is torch.strided:
            facts += [[str(s) for s in t.stride()], str(t.storage_offset())]
    return facts


def _values(t: torch.Tensor) -> list[torch.Tensor]:
    """Return what a tensor holds as plain dense tensors."""
    if isinstance(t, ways.Wrapper):
        return _values(t.inner)
    if t.is_meta or isinstance(t, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(t):
        return []
    t = t.detach()
    if t.is_nested:
        return [v for part in t.unbind() for v in _values(part)]
    if t.is_quantized:
        return [t.int_repr()]
    if t.layout is torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout is torch.sparse_csr:
        return [t.crow_indices(), t.col_indices(), t.values()]
    if t.layout is not torch.strided:
        return [t.to_dense()]
    if type(t) is not torch.Tensor:
        t = t.as_subclass(torch.Tensor)
    return [t.resolve_conj().resolve_neg().clone()]


STEPS = (torch.uint8, torch.int8, torch.int32)  # of quantized tensors, as integers

# ---- the comparison -------------------------------------------------------------------------------------------------------------------


def _differs(
    ours: Run,
    eager: Run,
    again: Run,
    judge: Any,
    chance: Callable[[torch.Tensor], bool] = lambda _: False,
    beside: bool = False,
) -> str:
    """Return what of a run is not eager's, or "". again: eager once more, for what eager itself does not repeat. judge: for values of a plan, or None.
    chance: which of eager's own values are chance (guard_eager.py), so that twice the same is luck. beside: whether eager itself may write
    where no element is."""
    if ours.error or eager.error:
        return (
            ""
            if ours.error == eager.error
            else f"with plans `{ours.error or 'no error'}`, eager `{eager.error or 'no error'}`"
        )
    for i, (a, b) in enumerate(zip(ours.facts, eager.facts, strict=False)):
        if a != b and b == again.facts[i]:
            return f"tensor {i} is {a} (eager's {b})"
    if len(ours.values) != len(eager.values) or len(ours.facts) != len(eager.facts):
        return f"{len(ours.facts)} tensors (eager's {len(eager.facts)})"
    for i, (a, b, c) in enumerate(zip(ours.memory, eager.memory, again.memory, strict=True)):
        if not same(a, b) and same(b, c) and not beside:
            return f"memory beside the elements of argument tensor {i} was written"
    values = list(zip(ours.values, eager.values, again.values, strict=True))
    for i, (a, b, c) in enumerate(values):
        if same(a, b):
            continue
        if judge is None and same(b, c) and not chance(b):
            return f"value {i} differs from eager's, and no plan ran: {first(a, b)}"
        if judge is not None and (verdict := judge(i, a, b)):
            return f"value {i} is not eager's by the rule: {verdict}; {first(a, b)}"
    return ""


def _judge(draft: Draft, eager: Run) -> Any:
    """Return the judge of values that a plan may have made: the referee's rule where it is this very call, else `close`."""
    bounds: list[Any] = []
    if draft.way in ("plain", "thread") and not eager.error:
        with contextlib.suppress(RefereeFault, RuntimeError, KeyError), torch.no_grad():
            bounds = bounds_of(
                overload(draft.call["overload"]), with_tensors(draft.call, draft.tensors()), "fresh"
            )
    bounds = bounds if all(same(b.eager, v) for b, v in zip(bounds, eager.values, strict=False)) else []

    most = max((largest(v) for v in eager.values), default=0.0)

    def judge(i: int, a: torch.Tensor, b: torch.Tensor) -> str:
        if i < len(bounds):
            finding = bounds[i].compare(a)
            return "" if finding.status == "ok" else str(finding.detail)
        if "quantized" in draft.notes and a.dtype == b.dtype in STEPS and a.shape == b.shape:
            # A rounding may lie at a step. An index or a truth has no steps.
            return "" if bool(((a.long() - b.long()).abs() <= 1).all()) else "beyond a step"
        return "" if close(a, b, most) else "beyond a few roundings"

    return judge


# ---- one call -------------------------------------------------------------------------------------------------------------------------


class Checker:
    """Checks calls while some plans are published."""

    def __init__(self, bases: list[Base], plans: list[Any], device: str) -> None:
        self.bases, self.device = bases, device
        self._module = _ext.load()
        served = {p.id for p in plans}
        self._call_of = {b.plan: _described(b.call) for b in bases if b.plan in served}
        self._plan_of = {call: plan for plan, call in self._call_of.items()}

    def overload_of(self, number: int) -> str:
        return overload_of(self.bases, number)

    def check(
        self, seed: int, number: int, drawn: Callable[[list[str]], None] = lambda _: None
    ) -> dict[str, Any]:
        """Return what was found: {"overload", "notes", "error", "hits", "reasons": {reason: n}, "wrong": text or ""}.

        drawn: told what is changed in the call before it is made, for the case that it ends the process.
        """
        draft = draft_of(self.bases, self.device, seed, number)
        drawn(draft.notes)
        heavy = draft.way in ("compile", "export")
        module = self._module
        module.stats(reset=True)
        ours = run(draft)
        counted = _counts(module.stats())
        hits = sum(hit for hit, _ in counted.values())
        with kernelforge.disabled():
            eager = run(draft)
            look(ours)
            look(eager)
            wrong = _differs(ours, eager, eager, None)
            if wrong and not ours.error and not eager.error:
                again = run(draft)  # what eager itself does not repeat is nobody's fault
                look(again)
                judge = _judge(draft, eager) if hits else None
                wrong = _differs(ours, eager, again, judge, chance(draft), is_not_looked_at(draft))
        if not wrong and not heavy and number % _TRACED == 0:
            wrong = self._accounted(draft, counted, bool(ours.error))
        reasons: dict[str, int] = {}
        for _, fallbacks in counted.values():
            for reason, count in fallbacks.items():
                reasons[reason] = reasons.get(reason, 0) + count
        return {
            "overload": draft.call["overload"],
            "notes": draft.notes,
            "error": ours.error.partition(":")[0],
            "hits": hits,
            "reasons": reasons,
            "wrong": wrong,
        }

    def _accounted(self, draft: Draft, counted: dict[str, Any], failed: bool) -> str:
        """Trace the call once more; return what its counters or its guard did not do, or ""."""
        self._module.trace_begin()
        try:
            run(draft)
        finally:
            sites = self._module.trace_end()
        traced: dict[str, tuple[int, dict[str, int]]] = {}
        for site in sites:
            name, plan, reason = site["overload"], site["plan"], site["reason"]
            hits, fallbacks = traced.get(name, (0, {}))
            call = _described(site["call"])
            planned = self._plan_of.get(call)
            if plan is not None and self._call_of.get(plan) != call:
                return f"plan `{plan}` served a call that is not its own: {call}"
            here = "other device" not in draft.notes  # a description has no device
            if plan is None and planned is not None and here and reason in ("no_match", "no_plan"):
                return f"a call of exactly the description of plan `{planned}` fell back: {reason}"
            if plan is not None:
                hits += 1
            elif reason != "no_plan":
                fallbacks = fallbacks | {reason: fallbacks.get(reason, 0) + 1}
            if hits or fallbacks:
                traced[name] = (hits, fallbacks)
        if not failed and not _CACHED.intersection(draft.notes) and traced != counted:
            return f"the counters say {counted}, the trace {traced}"
        return ""


def _described(call: dict[str, Any]) -> str:
    """Return what a guard holds of a call, as text."""
    return json.dumps([call["overload"], call["args"], [o["alias"] for o in call["outputs"]]], sort_keys=True)


def _counts(stats: dict[str, Any]) -> dict[str, tuple[int, dict[str, int]]]:
    """Return overload -> (hits, {reason: n}) of those that counted anything."""
    return {
        n: (o["hits"], dict(o["fallbacks"])) for n, o in stats["ops"].items() if o["hits"] or o["fallbacks"]
    }
