"""The modes and ways in which the guard fuzz makes a call: what a tensor can be beside plain, what can be around a call, what can be between a
user and the operator.

It owns kinds of tensors (sparse, quantised, nested, negative, subclasses, fakes), modes (autograd, autocast, deterministic, threads, streams) and
ways (traced, exported, compiled, mapped, differentiated). It refuses to compare: guard_check.py does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from guard_changes import Draft
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernelforge import _ext

Function = Callable[..., Any]

# ---- kinds of tensors ---------------------------------------------------------------------------------------------------------------


class Wrapper(torch.Tensor):
    """A subclass with a tensor inside, whose memory is not the wrapper's own; results are doubled."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, strides=inner.stride()
        )
        return made

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def open_up(v: Any) -> Any:
            return (
                [open_up(i) for i in v]
                if isinstance(v, (list, tuple))
                else v.inner
                if isinstance(v, cls)
                else v
            )

        out = func(*[open_up(a) for a in args], **{k: open_up(v) for k, v in (kwargs or {}).items()})
        return cls(out * 2) if isinstance(out, torch.Tensor) else out


class Tagged(torch.Tensor):
    """A subclass by __torch_function__ alone: its memory is plain."""


def _dense(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous()


def _quantized(t: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(t.float(), 0.1, 10, torch.quint8)


def _nested(layout: torch.layout) -> Callable[[torch.Tensor], torch.Tensor]:
    def make(t: torch.Tensor) -> torch.Tensor:
        parts = [p.contiguous() for p in t.unbind(0)] if t.dim() > 1 else [t, t]
        return torch.nested.nested_tensor(parts, layout=layout)

    return make


def _conjugate(t: torch.Tensor) -> torch.Tensor:
    return torch.complex(t.float(), t.float() * 0.5).conj()


def _imaginary(t: torch.Tensor) -> torch.Tensor:
    """A float32 view with the negative bit; the strides are those of a plain one's double."""
    return _conjugate(t).imag


def _inference(t: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return t.clone()


def _fake(t: torch.Tensor) -> torch.Tensor:
    return FakeTensorMode(allow_non_fake_inputs=True).from_tensor(t.detach())


def _foreign(t: torch.Tensor) -> torch.Tensor:
    """A tensor on another device than the call's: the second GPU or the CPU; meta where there is none."""
    if t.device.type == "cuda":
        return t.to("cuda:1") if torch.cuda.device_count() > 1 else t.cpu()
    return t.to("meta")


KINDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "coo": lambda t: t.relu().to_sparse(),
    "csr": lambda t: _dense(t).to_sparse_csr(),
    "mkldnn": lambda t: _dense(t.float()).cpu().to_mkldnn(),
    "quantized": _quantized,
    "nested": _nested(torch.strided),
    "jagged": _nested(torch.jagged),
    "conjugate": _conjugate,
    "imaginary": _imaginary,
    "negative": torch._neg_view,
    "zero": lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype, device=t.device),
    "lazy clone": torch._lazy_clone,
    "inference": _inference,
    "meta": lambda t: t.to("meta"),
    "fake": _fake,
    "wrapper": Wrapper,
    "tagged": lambda t: t.as_subclass(Tagged),
    "other device": _foreign,
    "wrapped tensor": lambda t: t.reshape(-1)[0].clone() if t.numel() else t,
}


def kind(draft: Draft) -> None:
    """One tensor, or all of them, of another kind than plain and dense."""
    name = draft.chance.choice(sorted(KINDS))
    draft.notes[-1] = name
    for slot in draft.some_slots():
        draft.wrap(slot, KINDS[name])


# ---- modes --------------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def _default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _side_stream() -> Iterator[None]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


@contextlib.contextmanager
def _discovering() -> Iterator[None]:
    """Somebody profiles with torch meanwhile."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield


@contextlib.contextmanager
def _python_dispatcher() -> Iterator[None]:
    from torch._dispatch.python import enable_python_dispatcher

    with enable_python_dispatcher():
        yield


class _Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return out * 2 if isinstance(out, torch.Tensor) and out.is_floating_point() else out


class _Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _modes(device: str) -> dict[str, Callable[[], Any]]:
    half = torch.float16 if device == "cuda" else torch.bfloat16
    modes: dict[str, Callable[[], Any]] = {
        "grad": torch.enable_grad,
        "inference_mode": torch.inference_mode,
        "autocast": lambda: torch.autocast(device, half),
        "autocast bfloat16": lambda: torch.autocast(device, torch.bfloat16, cache_enabled=False),
        "deterministic": _deterministic,
        "default dtype": _default_dtype,
        "more threads": _two_threads,
        "profiler": _discovering,
        "python dispatcher": _python_dispatcher,
        "dispatch mode": _Doubling,
        "function mode": _Passing,
        "hooks off": lambda: _ext.load().thread_off(),
        "anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
        "saved on cpu": torch.autograd.graph.save_on_cpu,
    }
    if device == "cpu":
        modes["without onednn"] = lambda: torch.backends.mkldnn.flags(enabled=False)
    else:
        modes["side stream"] = _side_stream
    return modes


def mode(draft: Draft) -> None:
    """A mode around the call."""
    modes = _modes(draft.device)
    name = draft.chance.choice(sorted(modes))
    draft.notes[-1] = name
    draft.modes.append(modes[name])


# ---- ways ---------------------------------------------------------------------------------------------------------------------------


def _plain(f: Function, tensors: list[Any]) -> Any:
    return f(*tensors)


def _in_thread(f: Function, tensors: list[Any]) -> Any:
    """Another thread calls, under the caller's grad modes."""
    outcome: list[Any] = []
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def work() -> None:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            try:
                outcome.append(f(*tensors))
            except Exception as e:
                outcome.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _in_parallel(f: Function, tensors: list[Any]) -> Any:
    """Three threads call at once, each on tensors of its own; the results of all."""
    copies = [tensors, *([t.clone() for t in tensors] for _ in range(2))]
    outcomes: list[Any] = [None] * len(copies)
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def work(i: int) -> None:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            try:
                for _ in range(3):
                    outcomes[i] = f(*copies[i])
            except Exception as e:
                outcomes[i] = e

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(copies))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for o in outcomes:
        if isinstance(o, Exception):
            raise o
    return outcomes


def _functionalized(f: Function, tensors: list[Any]) -> Any:
    return torch.func.functionalize(f)(*tensors)


def _traced(mode: str) -> Callable[[Function, list[Any]], Any]:
    def way(f: Function, tensors: list[Any]) -> Any:
        from torch.fx.experimental.proxy_tensor import make_fx

        return make_fx(f, tracing_mode=mode)(*tensors)(*tensors)

    return way


def _scripted(f: Function, tensors: list[Any]) -> Any:
    return torch.jit.trace(f, tuple(tensors), check_trace=False)(*tensors)


class _Module(torch.nn.Module):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.f = f

    def forward(self, *tensors: Any) -> Any:
        return self.f(*tensors)


def _exported(f: Function, tensors: list[Any]) -> Any:
    return torch.export.export(_Module(f), tuple(tensors)).module()(*tensors)


def _compiled(f: Function, tensors: list[Any]) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="aot_eager")(*tensors)


def _floats(tensors: list[Any]) -> list[int]:
    return [i for i, t in enumerate(tensors) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def _mapped(f: Function, tensors: list[Any]) -> Any:
    dims = tuple(0 if i % 2 == 0 or len(tensors) < 3 else None for i in range(len(tensors)))
    stacked = [torch.stack([t, t]) if d == 0 else t for t, d in zip(tensors, dims, strict=True)]
    return torch.vmap(f, in_dims=dims)(*stacked)


def _forward_derivative(f: Function, tensors: list[Any]) -> Any:
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(t, torch.ones_like(t)) if i in _floats(tensors) else t
            for i, t in enumerate(tensors)
        ]
        out = f(*duals)
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        return [p for o in outs for p in torch.autograd.forward_ad.unpack_dual(o) if p is not None]


def _tangents(f: Function, tensors: list[Any]) -> Any:
    at = _floats(tensors)

    def of_floats(*some: Any) -> Any:
        rest = list(tensors)
        for i, t in zip(at, some, strict=True):
            rest[i] = t
        return f(*rest)

    some = tuple(tensors[i] for i in at)
    return list(torch.func.jvp(of_floats, some, tuple(torch.ones_like(t) for t in some)))


def _backward(f: Function, tensors: list[Any]) -> Any:
    """The outputs, and the gradients of their sum."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() if i in _floats(tensors) else t for i, t in enumerate(tensors)]
        out = f(*leaves)
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        total = sum(o.double().sum() for o in outs if isinstance(o, torch.Tensor) and o.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
    return [
        *outs,
        *[leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.grad is not None],
    ]


def _graphed(f: Function, tensors: list[Any]) -> Any:
    """Captured as a CUDA graph, and replayed."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = f(*tensors)
    graph.replay()
    return out


# way -> (function, weight). Compiling and exporting take a second each, so they are rare.
WAYS: dict[str, tuple[Callable[[Function, list[Any]], Any], float]] = {
    "plain": (_plain, 0),
    "thread": (_in_thread, 2),
    "threads": (_in_parallel, 2),
    "functionalize": (_functionalized, 2),
    "make_fx real": (_traced("real"), 2),
    "make_fx fake": (_traced("fake"), 1),
    "make_fx symbolic": (_traced("symbolic"), 0.5),
    "jit trace": (_scripted, 2),
    "export": (_exported, 0.15),
    "compile": (_compiled, 0.15),
    "vmap": (_mapped, 3),
    "forward AD": (_forward_derivative, 2),
    "jvp": (_tangents, 2),
    "backward": (_backward, 4),
    "graph": (_graphed, 2),
}


def way(draft: Draft) -> None:
    """Another way to make the call than plainly."""
    names = [n for n, (_, weight) in WAYS.items() if weight > 0 and (n != "graph" or draft.device == "cuda")]
    draft.way = draft.notes[-1] = draft.chance.choices(names, [WAYS[n][1] for n in names])[0]
