"""The whole model with plans on and off: paired times, and whether its outputs are still as right as eager's.

The rule (docs/tolerance.md): bitwise equal passes. Else both are held against the model run in float64, and plans may err MODEL_RATIO times what
eager errs. A model that cannot run in float64 is held against what eager itself shows when each input moves by one rounding.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import _ext, _outputs
from .._inputs import as_call, tensors_of
from .._place import HOST, Place
from .._state import kept, module_of, plain
from .cases import Variant
from .chain import Drift, drift, drift_of_operator
from .confirm import NotLoaded, open_plan, serving
from .exhaustive import through_dispatcher
from .rule import (
    CHAIN_NOISE_RUNS,
    CHAIN_SECONDS,
    CHAIN_STEPS,
    MODEL_NOISE_RATIO,
    MODEL_NOISE_RUNS,
    MODEL_RATIO,
    UNIT,
)

_COPIES = (
    4  # a float64 copy of the model, its activations and some room must fit this many times into free memory
)

_CHAINS = (
    5 + CHAIN_NOISE_RUNS
)  # forwards of eager that the chains take together: eager, plans, noise, and float64 for about three

_ORDER = 64  # roundings of the largest value that another order of atomic sums may move an output by


def confirm_model(
    forward: Callable[[], Any], judge: Model, plans: list[dict[str, Any]], blocks: int, seed: int
) -> dict[str, Any]:
    """Time the forward with these plans on and off, in pairs of random order; return the result of the task `confirm_model`."""
    extension = _ext.load()
    on: list[float] = []
    off: list[float] = []
    try:
        opened = [open_plan(extension, p["plan"], p["image"], judge.place) for p in plans]
    except NotLoaded as e:
        return {"on_ms": on, "off_ms": off, "status": e.status, "detail": str(e)}
    chance = random.Random(seed)
    with serving(extension, opened):
        status, detail = judge.judge(extension)
        if status in _outputs.OUTPUTS_PASS:
            status = "ok"  # the core's word; the detail says what was not compared
        extension.set_enabled(True)
        while status == "ok" and len(on) < blocks:
            for plans_on in chance.sample((True, False), 2):
                extension.set_enabled(plans_on)
                (on if plans_on else off).append(judge.place.forward_ms(forward))
    return {"on_ms": on, "off_ms": off, "status": status, "detail": detail}


def outputs_of(forward: Callable[[], Any], place: Place = HOST) -> list[torch.Tensor]:
    """Return private copies of a forward's tensors, dense and real; random operators draw the same numbers each time.

    Raises:
        Incomparable: the values of one cannot be read.
    """
    with torch.random.fork_rng(devices=[place.ordinal] if place.cuda else []):
        torch.manual_seed(0)
        return [t.detach().clone() for one in tensors_of(forward()) for t in _outputs.parts_of(one.detach())]


@dataclass(frozen=True)
class _Yardstick:
    """What the outputs are held against: per tensor a reference in float64, and how much of eager's own error is allowed."""

    wide: list[torch.Tensor]
    errors: list[float]
    ratio: float
    words: str


class Model:
    """A model whose outputs can be judged. model, inputs: as given to `profile`; without them the fixed limits of `_outputs` speak."""

    def __init__(
        self, forward: Callable[[], Any], model: Any = None, inputs: Any = None, place: Place = HOST
    ) -> None:
        self._forward, self._model, self._inputs, self.place = forward, model, inputs, place
        self._eager: list[torch.Tensor] | None = None
        self._yardstick: _Yardstick | None = None
        self._measured = False
        self._repeating: bool | None = None  # not known yet

    def judge(self, extension: Any) -> tuple[str, str]:
        """Return status and words for the outputs with plans; `not_compared` where eager itself does not repeat, or values cannot be read."""
        try:
            eager = self.eager(extension)
            if self._repeating is None:
                self._repeating = self._repeats(extension, eager)
            if self._repeating:
                weights = self._weights()
                with _on(extension):
                    ours = self.outputs()
                status, detail = self.compare(eager, ours)
                # A model that changes now and then may have done so just with the plans, or while it ran in float64: only one that is still
                # the same says something, for the plans or against them.
                if _outputs.compare_tensors(eager, ours)["exact"] or self._repeats(extension, eager):
                    return status, detail
                if (
                    self._weights() != weights
                ):  # no forward writes them: a plan has, and eager is not what it was
                    return "wrong_value", "the model's parameters changed while the plans ran"
                self._repeating = False
            return "not_compared", _outputs.NOT_REPEATED
        except _outputs.Incomparable as e:
            return "not_compared", e.detail

    def _weights(self) -> list[int]:
        """Return a checksum of each parameter."""
        module = module_of(self._model)
        parameters = [] if module is None else [p.detach() for p in module.parameters() if plain(p)]
        return [int(p.reshape(-1).view(torch.uint8).sum()) if p.numel() else 0 for p in parameters]

    def _repeats(self, extension: Any, eager: list[torch.Tensor]) -> bool:
        with _off(extension):
            return _repeats(eager, self.outputs())

    def eager(self, extension: Any) -> list[torch.Tensor]:
        """Return eager's outputs, computed once."""
        if self._eager is None:
            with _off(extension):
                self._eager = self.outputs()
        return self._eager

    def outputs(self) -> list[torch.Tensor]:
        """Return the outputs of a forward that starts from the state that the model is in, and leaves it so."""
        with kept(self._model, self._inputs, self.place):
            return outputs_of(self._forward, self.place)

    def compare(self, eager: list[torch.Tensor], ours: list[torch.Tensor]) -> tuple[str, str]:
        """Return status and words for the outputs with plans."""
        plain = _outputs.compare_tensors(eager, ours)
        if plain["exact"] or plain["status"] == "wrong_shape":
            return plain["status"], plain["detail"]
        if not self._measured:
            with _off(_ext.load()):
                self._yardstick = self._in_float64(eager)
                self.place.trim()  # a model in float64 leaves much behind
                self._yardstick = self._yardstick or self._under_noise(eager)
            self._measured = True
        if self._yardstick is None:
            return plain["status"], plain["detail"]
        return _held(eager, ours, self._yardstick)

    def chained(self, extension: Any) -> Drift | str:
        """Run the model chained, with plans and without, and return how far they drifted; or why it cannot be chained."""
        if self._repeating is False:
            return "the model does not repeat itself"
        if not callable(self._model) or self._inputs is None:
            return "there is no model to call"
        call = as_call(self._inputs)
        start = next((t for t in tensors_of(call) if t.dtype in UNIT and t.layout is torch.strided), None)
        if start is None:
            return "it has no floating input"
        with _off(extension):
            once = self._step(self._model, call, start)
            if once(start) is None:
                return "it has no floating output"
            began = time.monotonic()  # the first one loaded and planned what the others find ready
            once(start)
            seconds = (time.monotonic() - began) * CHAIN_STEPS * _CHAINS
        if seconds > CHAIN_SECONDS:
            return f"it would take {seconds:.0f} s"

        def step(on: bool) -> Callable[[torch.Tensor], torch.Tensor]:
            once = self._step(self._model, call, start)

            def run(x: torch.Tensor) -> torch.Tensor:
                with _switched(extension, on):
                    return once(x)  # type: ignore[return-value]

            return run

        wide = self._wide_model()
        of_wide = None if wide is None else self._step(wide, call, start)
        try:
            if of_wide is not None and of_wide(start.double()) is None:
                of_wide = None
        except Exception:  # as in `_in_float64`
            of_wide = None
        with _off(extension):
            found = drift("model", step(False), step(True), of_wide, start)  # type: ignore[arg-type]
        self.place.trim()
        return found

    def _step(
        self, model: Any, call: tuple[tuple[Any, ...], dict[str, Any]], start: torch.Tensor
    ) -> Callable[[torch.Tensor], torch.Tensor | None]:
        """Return a step: the model's first floating output for an input in the place of `start`, the others as given."""

        def once(x: torch.Tensor) -> torch.Tensor | None:
            def change(t: torch.Tensor) -> torch.Tensor:
                return x.clone() if t is start else t.to(x.dtype) if x.dtype is torch.float64 else t

            outs = self._run(model, change, call)
            return next((o for o in outs if o.is_floating_point() and o.numel()), None)

        return once

    def _in_float64(self, eager: list[torch.Tensor]) -> _Yardstick | None:
        """Return the model's outputs in float64, or None where it cannot run so."""
        wide = self._wide_model()
        if wide is None:
            return None
        try:
            outs = self._run(wide, lambda t: t.double())
        except (
            Exception
        ):  # a model may name its types, refuse to be copied, or run out of memory: then noise speaks
            return None
        if len(outs) != len(eager) or any(o.shape != e.shape for o, e in zip(outs, eager, strict=True)):
            return None
        outs = [o.double() if o.is_floating_point() else o for o in outs]
        errors = [_error(e, o) for e, o in zip(eager, outs, strict=True)]
        return _Yardstick(outs, errors, MODEL_RATIO, "the model in float64")

    def _wide_model(self) -> Any:
        """Return a copy of the model in float64, or None where there is no room, or it cannot be copied.

        A function computes in float64 where its inputs are; one with weights of its own refuses them when it is called.
        """
        if not callable(self._model) or self._inputs is None:
            return None
        if not isinstance(self._model, torch.nn.Module):
            return self._model
        size = sum(t.numel() * 8 for t in (*self._model.parameters(), *self._model.buffers()))
        if size * _COPIES > self.place.free_bytes():
            return None
        try:
            return copy.deepcopy(self._model).double()
        except Exception:
            return None

    def _under_noise(self, eager: list[torch.Tensor]) -> _Yardstick | None:
        """Return eager's own outputs, with what they move when every floating input moves by one rounding; None without such inputs."""
        if (
            not callable(self._model)
            or self._inputs is None
            or not any(t.is_floating_point() for t in tensors_of(as_call(self._inputs)))
        ):
            return None
        chance = torch.Generator(self.place.device).manual_seed(0)

        def moved(t: torch.Tensor) -> torch.Tensor:
            sign = torch.randint(0, 2, t.shape, generator=chance, device=chance.device)
            sign = sign.mul_(2).sub_(1).to(t.dtype)
            return t * (1 + 2 * UNIT[t.dtype] * sign) if t.dtype in UNIT else t

        errors = [0.0] * len(eager)
        for _ in range(MODEL_NOISE_RUNS):
            outs = self._run(self._model, moved)
            errors = [max(a, _error(o, e)) for a, o, e in zip(errors, outs, eager, strict=True)]
        wide = [e.double() if e.is_floating_point() else e for e in eager]
        return _Yardstick(wide, errors, MODEL_NOISE_RATIO, "eager under noise of one rounding")

    def _run(
        self,
        model: Any,
        change: Callable[[torch.Tensor], torch.Tensor],
        call: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    ) -> list[torch.Tensor]:
        args, kwargs = as_call(self._inputs) if call is None else call

        def deep(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return change(value) if value.is_floating_point() else value
            if isinstance(value, dict):
                return {k: deep(v) for k, v in value.items()}
            return type(value)(map(deep, value)) if type(value) in (tuple, list) else value

        changed_args, changed_kwargs = deep(args), deep(kwargs)
        with kept(model, self._inputs, self.place):
            return outputs_of(lambda: model(*changed_args, **changed_kwargs), self.place)


def chained_operators(
    profile: Any, folder: Path, plans: list[dict[str, Any]], place: Place, why: str
) -> Drift:
    """Chain each plan's operator with itself, for a model that cannot be chained; return the worst drift. why: it cannot be."""
    extension, found = _ext.load(), []
    for plan in plans:
        variant = Variant(plan["call"], profile.payload(plan["card"], plan["variant"]), 0, place)
        [image] = (folder / "code").glob(plan["code"]["sha256"] + ".*")
        kept_back = {k: v for k, v in plan.items() if k not in ("code", "source", "evidence")}
        opened = open_plan(extension, kept_back, str(image), place)
        with serving(extension, [opened]):
            one = drift_of_operator(variant, through_dispatcher(extension, opened, variant.overload.name))
        if isinstance(one, Drift):
            found.append(one)
    wrong = next((f for f in found if f.status != "ok"), None)
    if wrong is not None:
        return wrong
    if not found:
        return Drift("ok", "operator", 0, 0.0, f"not chained: {why}, and its plans compute nothing floating")
    worst = max(found, key=lambda f: f.worst)
    return Drift(
        "ok",
        "operator",
        worst.steps,
        worst.worst,
        f"operator by operator, since {why}; the worst: {worst.detail}",
    )


def _repeats(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    """Return whether two eager forwards gave the same. Bits on the host; on a device sums by atomics may come in another order."""
    if len(first) != len(second):
        return False
    for a, b in zip(first, second, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if torch.equal(a, b):
            continue
        if not a.is_floating_point() or not torch.equal(a.isnan(), b.isnan()):
            return False
        x, y = a.double().nan_to_num(), b.double().nan_to_num()
        allowed = _ORDER * UNIT[a.dtype] * float(x.abs().max()) if a.is_cuda else 0.0
        if float((x - y).abs().max()) > allowed:
            return False
    return True


def _off(extension: Any) -> AbstractContextManager[None]:
    return _switched(extension, False)


def _on(extension: Any) -> AbstractContextManager[None]:
    return _switched(extension, True)


@contextmanager
def _switched(extension: Any, on: bool) -> Iterator[None]:
    was = extension.enabled()
    extension.set_enabled(on)
    try:
        yield
    finally:
        extension.set_enabled(was)


def _error(t: torch.Tensor, wide: torch.Tensor) -> float:
    """Root mean square error over the elements that are finite in both; for integers the part that differs."""
    if not t.is_floating_point():
        return float((t != wide).double().mean()) if t.numel() else 0.0
    difference = t.double() - wide.double()
    difference = difference[torch.isfinite(difference)]
    return float(difference.square().mean().sqrt()) if difference.numel() else 0.0


def _held(eager: list[torch.Tensor], ours: list[torch.Tensor], yardstick: _Yardstick) -> tuple[str, str]:
    worst = 0.0
    for i, (e, o, wide, error) in enumerate(zip(eager, ours, yardstick.wide, yardstick.errors, strict=True)):
        if e.is_floating_point() and not torch.equal(torch.isfinite(e), torch.isfinite(o)):
            return "wrong_value", f"output {i}: NaN or infinities where eager has none, or the reverse"
        size = _error(wide, torch.zeros_like(wide)) if e.is_floating_point() else 0.0
        allowed = yardstick.ratio * error + UNIT.get(e.dtype, 0.0) * size
        mine = _error(o, wide)
        if mine > allowed:
            return (
                "wrong_value",
                f"output {i}: error {mine:.3g} against {yardstick.words} (eager's {error:.3g}, at most {allowed:.3g})",
            )
        worst = max(worst, mine / allowed) if allowed > 0 else worst
    return "ok", f"error {worst:.2g} times what is allowed against {yardstick.words}"
