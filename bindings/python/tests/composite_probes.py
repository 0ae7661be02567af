"""What a composite that is hooked does in every mode of torch, as text: a process with hooks and published plans must say what one without says.

`python composite_probes.py [plans] [cuda]` prints {probe: what came out} as JSON. It owns the probes; test_composites.py compares.
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

DEVICE = "cuda" if "cuda" in sys.argv else "cpu"
BIAS = torch.tensor([1.0, 2.0, 3.0, 4.0], device=DEVICE)
OPERATORS: dict[str, Callable[..., Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2),
    "group_norm": lambda x: F.group_norm(x, 2, None, BIAS, 1.0),
}
if DEVICE == "cuda":
    del OPERATORS["max_pool2d"]  # its gradient adds up in any order there
LEAVES = {"max_pool2d": "max_pool2d_with_indices", "group_norm": "native_group_norm"}
# The second is channels_last, and each group of it holds one value: whoever takes mean and deviation finds the same bits, which Welford's recurrence and
# a sum do not of other values.
IMAGES = {
    "max_pool2d": torch.randn(2, 4, 9, 8, generator=torch.Generator().manual_seed(11)).to(DEVICE),
    "group_norm": torch.tensor([1.0, 1.0, 2.0, 2.0])
    .view(1, 4, 1, 1)
    .repeat(2, 1, 9, 8)
    .to(DEVICE, memory_format=torch.channels_last),
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
            plain = value.detach().contiguous().float().cpu()
            facts.append(hashlib.sha256(bytes(plain.untyped_storage())).hexdigest()[:12])
    return " ".join(map(str, facts))


def last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def _gradients(f: Callable[..., Any], x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
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


def _compiled(f: Callable[..., Any], x: torch.Tensor) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="aot_eager", fullgraph=True)(x)


def _compiled_gradient(f: Callable[..., Any], x: torch.Tensor) -> Any:
    torch._dynamo.reset()
    x = x.clone().requires_grad_()
    out = torch.compile(f, backend="aot_eager", fullgraph=True)(x)
    return out, torch.autograd.grad(out.sum(), x)


def _fake(f: Callable[..., Any], x: torch.Tensor, dispatcher: bool) -> Any:
    with (
        FakeTensorMode(allow_non_fake_inputs=True) as mode,
        enable_python_dispatcher() if dispatcher else contextlib.nullcontext(),
    ):
        return f(mode.from_tensor(last(x)))


def _deterministic(f: Callable[..., Any], x: torch.Tensor) -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return f(x), f(last(x))
    finally:
        torch.use_deterministic_algorithms(False)


def _autocast(f: Callable[..., Any], x: torch.Tensor) -> Any:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        return f(x), f(x.bfloat16()), f(last(x))


def _left_inference(f: Callable[..., Any], x: torch.Tensor) -> Any:
    """A tensor made under inference_mode, used outside and in a block that switches it off."""
    with torch.inference_mode():
        made = x * 2
        with torch.inference_mode(False):
            inside = f(x.clone().requires_grad_())
    return f(made), f(last(made)), inside


def probes(name: str, f: Callable[..., Any], x: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Return what is asked of an operator in each mode."""
    y = last(x)
    asked: dict[str, Callable[[], Any]] = {
        "plain": lambda: (f(x), f(y), f(x[..., ::2]), f(x.double()), f(x.bfloat16())),
        "layouts": lambda: (
            f(x.contiguous()),
            f(y[:, :2]),
            f(y[..., ::2]),
            f(y.double()),
            f(y.bfloat16()),
            f(y[:, :, :1]),
        ),
        "parameter": lambda: f(torch.nn.Parameter(x.clone())),
        "empty": lambda: f(x[:0]),
        "integers": lambda: f(x.long()),
        "five dims": lambda: f(x[None]),
        "meta": lambda: f(y.to("meta")),
        "sparse": lambda: f(x.to_sparse()),
        "oneDNN": lambda: f(x.to_mkldnn()).to_dense(),
        "quantized": lambda: f(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)).dequantize(),
        "nested": lambda: f(torch.nested.nested_tensor([x[0], x[1]])),
        "conjugate": lambda: f(torch.view_as_complex(torch.randn(2, 4, 6, 6, 2, device=DEVICE)).conj()),
        "negative": lambda: f(torch._neg_view(x)),
        "zero": lambda: f(torch._efficientzerotensor((2, 4, 9, 8), device=DEVICE)),
        "subclass": lambda: f(Wrapped(x)).inner,
        "gradients": lambda: _gradients(f, x),
        "vmap": lambda: torch.vmap(f)(x.repeat(3, 1, 1, 1, 1)),
        "jvp": lambda: torch.func.jvp(f, (x,), (y.contiguous(),)),
        "func.grad": lambda: torch.func.grad(lambda t: f(t).square().sum())(x),
        "vmap of grad": lambda: torch.vmap(torch.func.grad(lambda t: f(t).sum()))(x.repeat(3, 1, 1, 1, 1)),
        "jacrev": lambda: torch.func.jacrev(f)(x[:1, :, :3, :3]),
        "functionalize": lambda: torch.func.functionalize(f)(x),
        "forward mode": lambda: _forward_mode(f, x),
        "dispatch mode": lambda: _names(f, x),
        "profiler": lambda: _profiled(f, x),
        "fake": lambda: _fake(f, x, False),
        "fake, python dispatcher": lambda: _fake(f, x, True),
        "make_fx": lambda: _graph(make_fx(f)(x)),
        "make_fx, fake": lambda: _graph(make_fx(f, tracing_mode="fake", _allow_non_fake_inputs=True)(x)),
        "make_fx, pre-dispatch": lambda: _graph(make_fx(f, pre_dispatch=True)(x)),
        "jit.trace": lambda: _traced(f, x),
        "autocast": lambda: _autocast(f, x),
        "deterministic": lambda: _deterministic(f, x),
        "inference tensors": lambda: _left_inference(f, x),
        "compile": lambda: _compiled(f, x),
    }
    wrong = {
        "max_pool2d": [
            lambda: F.max_pool2d(x, 0),
            lambda: F.max_pool2d(x, 2, 2, 3),
            lambda: F.max_pool2d(x, 99),
        ],
        "group_norm": [
            lambda: F.group_norm(y, 3),
            lambda: F.group_norm(y, 2, torch.ones(3, device=DEVICE)),
            lambda: F.group_norm(y[0, :, 0, 0], 2),
        ],
    }[name]
    return asked | {f"refused {i}": call for i, call in enumerate(wrong)}


def _forward_mode(f: Callable[..., Any], x: torch.Tensor) -> Any:
    with torch.autograd.forward_ad.dual_level():
        out = f(torch.autograd.forward_ad.make_dual(x, last(x).contiguous()))
        return tuple(torch.autograd.forward_ad.unpack_dual(out))


def _traced(f: Callable[..., Any], x: torch.Tensor) -> Any:
    traced = torch.jit.trace(f, (x,))
    return [n.kind() for n in traced.graph.nodes()], traced(x)


def _exported(f: Callable[..., Any], x: torch.Tensor) -> Any:
    program = torch.export.export(Net(f), (x,), strict=False)
    return (
        _graph(program.graph_module),
        _graph(program.run_decompositions({}).graph_module),
        program.module()(x),
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
        x = IMAGES[name]
        for mode, guard in MODES.items():
            for probe, ask in probes(name, f, x).items():
                with guard():
                    found[f"{name}, {mode}: {probe}"] = answer(ask)
            if mode != "grad":  # training graphs take long to make; one is below
                with guard():
                    found[f"{name}, {mode}: export"] = answer(lambda f=f, x=x: _exported(f, x))
        found[f"{name}: compiled gradient"] = answer(lambda f=f, x=x: _compiled_gradient(f, x))
        table = torch._C._dispatch_dump_table(f"aten::{name}").splitlines()
        found[f"{name}: table"] = [line for line in table if not line.startswith("BackendSelect")]
    return found


def _with_plans() -> dict[str, Any]:
    """Run with a plan for each operator's plain calls, of the composite and of its leaf."""
    from serving import ext, hits, plans_for, published

    calls = [
        lambda f=f, x=x: f(x) for n, f in OPERATORS.items() for x in (IMAGES[n].contiguous(), last(IMAGES[n]))
    ]
    hooked = {n for n in OPERATORS if f"aten::{n}" in ext().install()["hooked"]}
    with torch.inference_mode():
        plans = plans_for(*calls)
    with torch.no_grad():
        plans += plans_for(*calls)
    with published(list({p.id: p for p in plans}.values())):  # a leaf's arrives in both
        found = run()
        whole = hooked if DEVICE == "cuda" else hooked - {"group_norm"}  # which passes there
        assert {n for n in OPERATORS if hits(f"aten::{n}")} == whole
        assert all(hits(f"aten::{LEAVES[n]}") for n in OPERATORS)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    if "plans" in sys.argv:
        found = _with_plans()
    else:
        found = run()
        assert "kernelforge._C" not in sys.modules
    print(json.dumps(found))


if __name__ == "__main__":
    main()
