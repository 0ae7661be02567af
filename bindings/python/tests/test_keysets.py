"""Only plain dense tensors of the target are served. For each other kind of tensor a plan for the plain call with the same sizes, strides and
dtype is published, so that a hook that looked at those alone would serve it; the result must be eager's and the count must stay zero.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from serving import device, eager, ext, fallbacks, hits, plans_for, published, serving

X = torch.randn(4, 6)


def identical(got, expected):
    return (
        torch.equal(got.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
        and got.stride() == expected.stride()
    )


def test_plain_tensor_is_served():
    with serving(lambda: torch.relu(X)), torch.no_grad():
        assert torch.equal(torch.relu(X), X.clamp(min=0))
        assert hits("aten::relu") == 1


def test_neg_view_is_resolved_before_the_hook():
    """x.neg_view.copy_ was once served with the wrong sign: the plan saw the memory, not the sign bit."""
    negative = torch._neg_view(X)
    target = torch.empty_like(X)
    with torch.no_grad(), published(plans_for(lambda: target.copy_(X), lambda: torch.relu(X))):
        assert negative.is_neg()
        got = target.clone().copy_(negative)
        assert torch.equal(got, -X)
        assert torch.equal(torch.relu(negative), (-X).clamp(min=0))
        with eager():
            view = torch._neg_view(target.fill_(1))
        view.copy_(X)  # written through a negative view
        assert torch.equal(target, -X)


def test_a_neg_tensor_below_the_negative_key_falls_back():
    """copy_ is the one operator that the Negative key lets through with the bit set."""
    target = torch.empty_like(X)
    with torch.no_grad(), serving(lambda: target.copy_(X), only="aten::copy_"):
        target.copy_(torch._neg_view(X))
        assert hits("aten::copy_") == 0
        assert fallbacks("aten::copy_").get("key_set", 0) >= 1
        assert torch.equal(target, -X)


def test_conjugate_and_its_real_view():
    """The imaginary part of a conjugate is a float32 view with the neg bit and the strides of the plain one."""
    z = torch.randn(4, 6, dtype=torch.complex64)
    plain, conjugate = z.imag, z.conj().imag
    assert conjugate.is_neg() and conjugate.stride() == plain.stride()
    with torch.no_grad(), serving(lambda: plain + plain):
        assert torch.equal(conjugate + conjugate, -2 * z.imag)
        assert torch.equal(plain + plain, 2 * z.imag)
        assert hits("aten::add.Tensor") >= 1
        assert torch.equal((z.conj() + z).real, 2 * z.real)


def test_complex_is_never_captured():
    z = torch.randn(4, 6, dtype=torch.complex64)
    ext().capture_begin(0, 0)
    torch.exp(z)
    z * 2
    assert ext().capture_end() == []


def test_zero_tensor():
    zero = torch._efficientzerotensor((4, 6), device=X.device)
    with torch.no_grad(), serving(lambda: X + X, lambda: torch.relu(X), lambda: X * X):
        assert torch.equal(X + zero, X)
        assert torch.equal(X * zero, torch.zeros(4, 6))
        assert hits("aten::add.Tensor") == 0
        assert hits("aten::mul.Tensor") == 0


@pytest.mark.parametrize("layout", ["coo", "csr", "mkldnn"])
def test_sparse_and_opaque_layouts(layout):
    if layout == "mkldnn" and device() != "cpu":
        pytest.skip("this layout is of the CPU")
    make = {"coo": X.relu().to_sparse, "csr": X.relu().to_sparse_csr, "mkldnn": X.to_mkldnn}[layout]
    with torch.no_grad(), eager():
        special = make()
        expected = torch.relu(special).to_dense()
    with torch.no_grad(), serving(lambda: torch.relu(X)):
        got = torch.relu(special)
        assert got.layout == special.layout
        assert torch.equal(got.to_dense(), expected)
        assert hits("aten::relu") == 0


def test_quantized():
    q = torch.quantize_per_tensor(X, 0.1, 10, torch.quint8)
    with torch.no_grad(), serving(lambda: torch.relu(X), lambda: torch.relu(X.to(torch.uint8))):
        with eager():
            expected = torch.relu(q).int_repr()
        got = torch.relu(q)
        assert got.is_quantized
        assert torch.equal(got.int_repr(), expected)
        assert hits("aten::relu") == 0


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested(layout):
    nested = torch.nested.nested_tensor([torch.randn(3, 6), torch.randn(4, 6)], layout=layout)
    with torch.no_grad():
        with eager():
            expected = [torch.relu(t) for t in nested.unbind()]
        with serving(lambda: torch.relu(X)):
            got = torch.relu(nested)
            assert got.is_nested
            assert all(torch.equal(g, e) for g, e in zip(got.unbind(), expected, strict=True))


def test_meta_and_fake_tensors():
    with serving(lambda: torch.relu(X)):
        assert torch.relu(X.to("meta")).is_meta
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(X)
            out = torch.relu(fake)
            assert type(out) is type(fake)
            assert out.shape == X.shape
        assert hits("aten::relu") == 0


class Logged(torch.Tensor):
    """A wrapper subclass whose inner tensor is doubled: reading the wrapper's own memory would give another result."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, strides=inner.stride()
        )

    def __init__(self, inner):
        self.inner = inner
        self.calls = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        out = func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {}))
        return cls(out * 2)


def test_wrapper_subclass_sees_its_calls_and_is_served_inside():
    with torch.no_grad(), serving(lambda: torch.relu(X), only="aten::relu"):
        out = torch.relu(Logged(X))
        assert type(out) is Logged
        assert torch.equal(out.inner, X.clamp(min=0) * 2)
        assert hits("aten::relu") == 1  # of the inner, plain tensor


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 2


def test_dispatch_mode_is_above_the_hook():
    with torch.no_grad(), serving(lambda: torch.relu(X), only="aten::relu"):
        with Doubling():
            got = torch.relu(X)
        assert torch.equal(got, X.clamp(min=0) * 2)
        assert hits("aten::relu") == 1


class Tagged(torch.Tensor):
    """A subclass by __torch_function__ alone: its memory is plain, so serving it is right."""


def test_function_subclass_keeps_its_type():
    with torch.no_grad(), serving(lambda: torch.relu(X), only="aten::relu"):
        out = torch.relu(X.as_subclass(Tagged))
        assert type(out) is Tagged
        assert torch.equal(out.as_subclass(torch.Tensor), X.clamp(min=0))
        assert hits("aten::relu") == 1


def test_functionalized_inplace_call():
    def function(x):
        y = x.clone()
        y.relu_()
        return y + 0

    with torch.no_grad(), serving(lambda: torch.relu(X)):
        with eager():
            expected = function(X)
        got = torch.func.functionalize(function)(X)
        assert torch.equal(got, expected)
        assert hits("aten::relu") == 1


def test_make_fx_traces_the_operator_not_the_plan():
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad(), serving(lambda: torch.relu(X)):
        graph = make_fx(torch.relu, tracing_mode="fake")(X)
        assert [n.target for n in graph.graph.nodes if n.op == "call_function"] == [
            torch.ops.aten.relu.default
        ]
        assert hits("aten::relu") == 0


def test_python_dispatcher_is_passed_by():
    from torch._dispatch.python import enable_python_dispatcher

    with torch.no_grad(), serving(lambda: torch.relu(X), only="aten::relu"):
        with enable_python_dispatcher():
            assert torch.equal(torch.relu(X), X.clamp(min=0))
        torch.relu(X)
        assert hits("aten::relu") >= 1


def test_parameter_and_inference_tensors_are_plain():
    with serving(lambda: torch.relu(X), only="aten::relu"):
        parameter = torch.nn.Parameter(X.clone())
        torch.relu(parameter).sum().backward()
        assert torch.equal(parameter.grad, (X > 0).float())
        with torch.inference_mode():
            made = X * 1
        assert made.is_inference()
        torch.relu(made)
        assert hits("aten::relu") == 2


def test_copy_on_write_tensors_keep_their_sharers():
    """An in-place plan on a lazily cloned tensor must write to memory of its own."""
    with torch.no_grad(), serving(lambda: X.clone().relu_(), only="aten::relu_"):
        original = X.clone()
        lazy = torch._lazy_clone(original)
        lazy.relu_()
        assert torch.equal(original, X)
        assert torch.equal(lazy, X.clamp(min=0))
        assert hits("aten::relu_") == 1


def test_reading_a_copy_on_write_tensor_does_not_copy_it():
    with torch.no_grad(), serving(lambda: torch.relu(X), only="aten::relu"):
        original = X.clone()
        lazy = torch._lazy_clone(original)
        torch.relu(lazy)
        assert hits("aten::relu") == 1
        assert torch._C._is_cow_tensor(lazy)
