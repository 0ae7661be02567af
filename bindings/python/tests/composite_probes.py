"""What a composite that is hooked does in every mode of torch, as text: a process with hooks and published plans must say what one without says.

`python composite_probes.py [plans]` prints {probe: what came out} as JSON. It owns the probes; test_composites.py compares.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(11)
IMAGE = torch.randn(2, 4, 9, 8)
LAST = IMAGE.to(memory_format=torch.channels_last)
OPERATORS: dict[str, Callable[..., Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2),
}
MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


def said(value: Any) -> Any:
    """Return a value as text: a tensor by its bits, geometry, kind and what autograd knows of it."""
    if isinstance(value, (tuple, list)):
        return [said(v) for v in value]
    if not isinstance(value, torch.Tensor):
        return str(value)
    node = value.grad_fn
    facts = [type(value).__name__, value.dtype, value.layout, value.device, tuple(value.shape)]
    facts += [value.requires_grad, None if node is None else node.name(), value.is_inference()]
    if value.layout is torch.strided and not value.is_nested:
        facts += [value.stride(), value._is_view()]
        if (
            not value.is_meta
            and not isinstance(value, torch._subclasses.FakeTensor)
            and not torch._C._functorch.is_functorch_wrapped_tensor(value)
        ):
            plain = value.detach().contiguous().float()
            facts.append(hashlib.sha256(bytes(plain.untyped_storage())).hexdigest()[:12])
    return " ".join(map(str, facts))


def _gradients(f: Callable[..., Any]) -> Any:
    x = IMAGE.clone().requires_grad_()
    out = f(x)
    (first,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return out, first, second


class Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    """A subclass with a dispatch of its own."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, strides=inner.stride()
        )
        made.inner = inner
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [a.inner if isinstance(a, cls) else a for a in args]
        out = func(*plain, **(kwargs or {}))
        return (
            [str(func)]
            if not isinstance(out, torch.Tensor) and not isinstance(out, tuple)
            else torch.utils._pytree.tree_map_only(torch.Tensor, cls, out)
        )


def _names(f: Callable[..., Any], x: torch.Tensor) -> Any:
    with Names() as mode:
        out = f(x)
    return mode.seen, out


def _profiled(f: Callable[..., Any], x: torch.Tensor) -> Any:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as watched:
        f(x)
    return [e.name for e in watched.events()]  # type: ignore[no-untyped-call]


def _graph(module: Any) -> list[str]:
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


class Net(torch.nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: torch.Tensor) -> Any:
        return self.f(x)


def _compiled(f: Callable[..., Any], backend: str) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend=backend, fullgraph=True)(IMAGE)


def _compiled_gradient(f: Callable[..., Any]) -> Any:
    torch._dynamo.reset()
    x = IMAGE.clone().requires_grad_()
    out = torch.compile(f, backend="aot_eager", fullgraph=True)(x)
    return out, torch.autograd.grad(out.sum(), x)


def _fake(f: Callable[..., Any], dispatcher: bool) -> Any:
    with (
        FakeTensorMode(allow_non_fake_inputs=True) as mode,
        enable_python_dispatcher() if dispatcher else contextlib.nullcontext(),
    ):
        return f(mode.from_tensor(LAST))


def _deterministic(f: Callable[..., Any]) -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return f(IMAGE), f(LAST)
    finally:
        torch.use_deterministic_algorithms(False)


def _autocast(f: Callable[..., Any]) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return f(IMAGE), f(IMAGE.bfloat16())


def _left_inference(f: Callable[..., Any]) -> Any:
    """A tensor made under inference_mode, used outside and in a block that switches it off."""
    with torch.inference_mode():
        made = IMAGE * 2
        with torch.inference_mode(False):
            inside = f(IMAGE.clone().requires_grad_())
    return f(made), inside


def probes(name: str, f: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Return what is asked of an operator in each mode."""
    asked: dict[str, Callable[[], Any]] = {
        "plain": lambda: (f(IMAGE), f(LAST), f(IMAGE[..., ::2]), f(IMAGE.double()), f(IMAGE.bfloat16())),
        "parameter": lambda: f(torch.nn.Parameter(IMAGE.clone())),
        "empty": lambda: f(IMAGE[:0]),
        "integers": lambda: f(IMAGE.long()),
        "five dims": lambda: f(IMAGE[None]),
        "meta": lambda: f(LAST.to("meta")),
        "sparse": lambda: f(IMAGE.to_sparse()),
        "oneDNN": lambda: f(IMAGE.to_mkldnn()).to_dense(),
        "quantized": lambda: f(torch.quantize_per_tensor(IMAGE, 0.1, 0, torch.quint8)).dequantize(),
        "nested": lambda: f(torch.nested.nested_tensor([IMAGE[0], IMAGE[1]])),
        "conjugate": lambda: f(torch.view_as_complex(torch.randn(2, 4, 6, 6, 2)).conj()),
        "negative": lambda: f(torch._neg_view(IMAGE)),
        "zero": lambda: f(torch._efficientzerotensor((2, 4, 9, 8))),
        "subclass": lambda: f(Wrapped(IMAGE)).inner,
        "gradients": lambda: _gradients(f),
        "vmap": lambda: torch.vmap(f)(IMAGE.repeat(3, 1, 1, 1, 1)),
        "jvp": lambda: torch.func.jvp(f, (IMAGE,), (LAST.contiguous(),)),
        "func.grad": lambda: torch.func.grad(lambda x: f(x).square().sum())(IMAGE),
        "vmap of grad": lambda: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(
            IMAGE.repeat(3, 1, 1, 1, 1)
        ),
        "jacrev": lambda: torch.func.jacrev(f)(IMAGE[:1, :, :3, :3]),
        "functionalize": lambda: torch.func.functionalize(f)(IMAGE),
        "forward mode": lambda: _forward_mode(f),
        "dispatch mode": lambda: _names(f, IMAGE),
        "profiler": lambda: _profiled(f, IMAGE),
        "fake": lambda: _fake(f, False),
        "fake, python dispatcher": lambda: _fake(f, True),
        "make_fx": lambda: _graph(make_fx(f)(IMAGE)),
        "make_fx, fake": lambda: _graph(make_fx(f, tracing_mode="fake", _allow_non_fake_inputs=True)(IMAGE)),
        "make_fx, pre-dispatch": lambda: _graph(make_fx(f, pre_dispatch=True)(IMAGE)),
        "jit.trace": lambda: _traced(f),
        "autocast": lambda: _autocast(f),
        "deterministic": lambda: _deterministic(f),
        "inference tensors": lambda: _left_inference(f),
        "compile": lambda: _compiled(f, "aot_eager"),
    }
    wrong = {
        "max_pool2d": [
            lambda: F.max_pool2d(IMAGE, 0),
            lambda: F.max_pool2d(IMAGE, 2, 2, 3),
            lambda: F.max_pool2d(IMAGE, 99),
        ],
    }[name]
    return asked | {f"refused {i}": call for i, call in enumerate(wrong)}


def _forward_mode(f: Callable[..., Any]) -> Any:
    with torch.autograd.forward_ad.dual_level():
        out = f(torch.autograd.forward_ad.make_dual(IMAGE, LAST.contiguous()))
        return tuple(torch.autograd.forward_ad.unpack_dual(out))


def _traced(f: Callable[..., Any]) -> Any:
    traced = torch.jit.trace(f, (IMAGE,))
    return [n.kind() for n in traced.graph.nodes()], traced(IMAGE)


def _exported(f: Callable[..., Any], strict: bool) -> Any:
    program = torch.export.export(Net(f), (IMAGE,), strict=strict)
    return (
        _graph(program.graph_module),
        _graph(program.run_decompositions({}).graph_module),
        program.module()(IMAGE),
    )


def answer(ask: Callable[[], Any]) -> Any:
    """Return what a probe says, or the error that it ends with."""
    try:
        return said(ask())
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def run() -> dict[str, Any]:
    """Return every answer by operator, mode and probe."""
    found: dict[str, Any] = {}
    for name, f in OPERATORS.items():
        for mode, guard in MODES.items():
            for probe, ask in probes(name, f).items():
                with guard():
                    found[f"{name}, {mode}: {probe}"] = answer(ask)
            if mode != "grad":  # training graphs take long to make; one is below
                with guard():
                    found[f"{name}, {mode}: export"] = answer(lambda f=f: _exported(f, False))
        found[f"{name}: compiled gradient"] = answer(lambda f=f: _compiled_gradient(f))
        table = torch._C._dispatch_dump_table(f"aten::{name}").splitlines()
        found[f"{name}: table"] = [line for line in table if not line.startswith("BackendSelect")]
    return found


def _with_plans() -> dict[str, Any]:
    """Run with a plan for each operator's plain calls, of the composite and of its leaf."""
    from serving import hits, plans_for, published

    calls = [lambda f=f, x=x: f(x) for f in OPERATORS.values() for x in (IMAGE, LAST)]
    with torch.inference_mode():
        plans = plans_for(*calls)
    with torch.no_grad():
        plans += plans_for(*calls)
    with published(plans):
        found = run()
        assert all(hits(f"aten::{name}") > 0 for name in OPERATORS)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["plans"]:
        found = _with_plans()
    else:
        found = run()
        assert "kernelforge._C" not in sys.modules
    print(json.dumps(found))


if __name__ == "__main__":
    main()
