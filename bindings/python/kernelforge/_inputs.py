"""What `inputs` may be, and one forward as a function without arguments whose failure is one clear error.

It owns the checks before anything is measured: inputs there, all on one device, a device that is served, a model that runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ._place import HOST, Place, place_of
from .errors import EnvironmentFault, ModelFault, UsageFault

_FORMS = "give a tensor, a tuple of arguments, a dict of keyword arguments, ((arguments), {keywords}), or a function that returns one of these"


def as_call(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments and keyword arguments for the forms of `inputs` that are accepted; a function is called for them.

    Example:
        >>> as_call({"x": 1})
        ((), {'x': 1})
    """
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    if callable(inputs):
        inputs = inputs()
    if isinstance(inputs, dict):
        args, kwargs = (), dict(inputs)
    elif (
        isinstance(inputs, tuple)
        and len(inputs) == 2
        and isinstance(inputs[0], tuple)
        and isinstance(inputs[1], dict)
    ):
        args, kwargs = inputs[0], dict(inputs[1])
    elif isinstance(inputs, (tuple, list)):
        args, kwargs = tuple(inputs), {}
    elif inputs is None:
        args, kwargs = (), {}
    else:
        args, kwargs = (inputs,), {}
    if not args and not kwargs:
        raise UsageFault("run the model: no inputs were given (expected at least one)", hint=_FORMS)
    return args, kwargs


def name_of(model: Any) -> str:
    """Return a short name for messages and studies: the class of a module, the name of a function."""
    return str(getattr(model, "__name__", None) or type(model).__name__)


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors inside tuples, lists, dicts and objects with fields."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(tensors_of, value.values()))
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from itertools.chain.from_iterable(map(tensors_of, value))
    elif hasattr(value, "__dataclass_fields__"):
        yield from itertools.chain.from_iterable(
            tensors_of(getattr(value, f)) for f in value.__dataclass_fields__
        )


def device_of(model: Any, inputs: Any) -> Place:
    """Return the one place that model and inputs are on: the host or a CUDA device.

    Raises:
        ModelFault: they are on several.
        EnvironmentFault: it is one that this version has no target for.
    """
    places: dict[str, str] = {}
    for t in tensors_of(as_call(inputs)):
        places.setdefault(str(t.device), "an input")
    for kind in ("parameters", "buffers"):
        for t in getattr(model, kind, tuple)():
            # 0-dim buffers (a batch norm's counter) may stay on the CPU.
            if t.dim() > 0:
                places.setdefault(str(t.device), f"the model's {kind}")
    if len(places) > 1:
        found = ", ".join(f"{what} on {where}" for where, what in places.items())
        raise ModelFault(
            f"run `{name_of(model)}`: model and inputs are on several devices ({found})",
            hint="move them to one: model.to(device), input.to(device)",
        )
    device = next(iter(places), None)
    if device is not None and device.partition(":")[0] not in ("cpu", "cuda"):
        raise EnvironmentFault(
            f"run `{name_of(model)}` on {device}: no target serves it (expected cpu, the host target, or cuda)",
            hint="move model and inputs to the CPU or to a CUDA device",
        )
    return HOST if device is None else place_of(device)


def forward_of(model: Any, inputs: Any) -> Callable[[], Any]:
    """Return one forward as a function without arguments, checked as said at the top of this file.

    The caller's grad and inference modes hold. An exception of the model comes out as ModelFault, with the original as its cause.
    """
    if not callable(model):
        raise UsageFault(f"run `{name_of(model)}`: it cannot be called (expected a model or a function)")
    args, kwargs = as_call(inputs)
    device_of(model, (args, kwargs))

    def forward() -> Any:
        nonlocal args, kwargs
        if callable(inputs):
            args, kwargs = as_call(inputs)
        try:
            return model(*args, **kwargs)
        except Exception as e:
            text = str(e).strip().splitlines()
            raise ModelFault(
                f"run `{name_of(model)}`: it raised {type(e).__name__}: {text[0] if text else ''}",
                hint="call it once as `model(*inputs)` to see its own traceback; nothing was searched",
            ) from e

    return forward
