"""What running a model changes: its buffers, inputs that it writes in place, random numbers. Saved before, put back after.

It owns what "the model is not changed" means for a study, which runs a model dozens of times. It refuses parameters: a forward does not write them,
and a copy would double a model's memory.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Iterator
from typing import Any

from . import _ext
from ._inputs import as_call, tensors_of
from ._place import Place


@contextlib.contextmanager
def kept(model: Any, inputs: Any, place: Place) -> Iterator[None]:
    """Put back, after the block, the buffers of a module, the inputs, and the random state of Python, NumPy, torch and the device.

    A buffer that the model replaced by another tensor gets its former tensor back; one that it made in the block stays.

    Args:
        model: a module, a method of one, a partial of either; of other callables only the random state is known.
        inputs: as for `optimize`; None, or a function that makes them, has nothing to put back.
    """
    import torch

    modules = list(module_of(model).modules()) if module_of(model) is not None else []
    slots = [(m._buffers, name, b) for m in modules for name, b in m._buffers.items() if b is not None]
    given = [] if inputs is None or callable(inputs) else list(tensors_of(as_call(inputs)))
    with _unseen():
        saved = {id(t): (t, t.detach().clone()) for t in (*(b for _, _, b in slots), *given) if plain(t)}
    chance = random.getstate()
    numpy = sys.modules.get("numpy")  # a model that draws from it has imported it
    drawn = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=[place.ordinal] if place.cuda else []):
            yield
    finally:
        random.setstate(chance)
        if numpy is not None:
            numpy.random.set_state(drawn)
        for buffers, name, buffer in slots:
            if buffers.get(name) is not buffer:
                buffers[name] = buffer
        with _unseen():
            for t, before in saved.values():
                # Only what changed: a write would disturb the graph of a caller who is about to call backward.
                if not _equal(t, before):
                    with torch.no_grad(), torch.inference_mode(t.is_inference()):
                        t.copy_(before)


def _unseen() -> contextlib.AbstractContextManager[Any]:
    """Keep the hooks from counting, recording and serving what is done here."""
    extension = _ext.loaded()
    off: contextlib.AbstractContextManager[Any] = (
        contextlib.nullcontext() if extension is None else extension.thread_off()
    )
    return off


def _equal(t: Any, before: Any) -> bool:
    import torch

    try:
        return torch.equal(t, before)
    except RuntimeError:  # some types cannot be compared: what is not known to be equal is written
        return False


def module_of(model: Any) -> Any:
    """Return the module behind a callable, or None."""
    import torch

    while isinstance(model, functools.partial):
        model = model.func
    owner = getattr(model, "__self__", model)
    return owner if isinstance(owner, torch.nn.Module) else None


def plain(t: Any) -> bool:
    """Whether a tensor is one that can be copied and compared: dense, with memory, no subclass."""
    import torch

    return type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout is torch.strided and not t.is_meta
