"""A plan runs for exactly the call it was made for: sizes, strides, types, scalars by their bits, aliases. Anything else is eager's."""

import math

import pytest
import torch
import torch.nn.functional as F

import kernelforge
from handmade import record
from serving import alone, close, eager, fallbacks, hits, serving

torch.manual_seed(5)
X, Y = torch.randn(4, 6), torch.randn(4, 6)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


# ---- tensors ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(torch.randn(4, 7), id="other sizes"),
        pytest.param(torch.randn(6, 4).t(), id="transposed"),
        pytest.param(torch.randn(4, 12)[:, ::2], id="sliced"),
        pytest.param(torch.randn(4, 1).expand(4, 6), id="expanded"),
        pytest.param(torch.randn(24), id="other rank"),
        pytest.param(torch.randn(4, 6, dtype=torch.float64), id="other dtype"),
    ],
)
def test_another_tensor_is_not_served(other):
    with serving(lambda: torch.relu(X)):
        assert torch.equal(torch.relu(other), other.clamp(min=0))
        assert alone("aten::relu") == "no_match"


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda: torch.randn(6, 4).t(), id="transposed"),
        pytest.param(lambda: torch.randn(4, 12)[:, ::2], id="sliced"),
        pytest.param(lambda: torch.randn(4, 1).expand(4, 6), id="expanded"),
        pytest.param(
            lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), id="channels_last"
        ),
        pytest.param(lambda: torch.randn(5, 4, 6)[2], id="offset"),
        pytest.param(lambda: torch.tensor(-1.5), id="0-dim"),
    ],
)
def test_views_are_served_by_their_own_plan_with_eagers_strides(view):
    x = view()
    with serving(lambda: torch.relu(x), only="aten::relu"):
        with eager():
            expected = torch.relu(x)
        got = torch.relu(x)
        assert hits("aten::relu") == 1
    assert torch.equal(got, expected)
    assert got.stride() == expected.stride()


def test_a_result_that_keeps_its_place_in_the_memory_is_eagers():
    at = torch.randn(5, 4, 6)[2]
    with serving(lambda: torch.ops.aten.copy(X, Y), only="aten::copy"):
        assert torch.equal(torch.ops.aten.copy(X, Y), Y) and hits("aten::copy") == 1
        kernelforge.stats(reset=True)
        got = torch.ops.aten.copy(at, Y)
        assert torch.equal(got, Y) and got.storage_offset() == at.storage_offset() == 48
        assert alone("aten::copy") == "rule"


def test_empty_tensors_run_on_eager():
    empty = torch.empty(0, 6)
    assert record(lambda: torch.relu(empty)) == []
    with serving(lambda: torch.relu(X), lambda: torch.cat([X, Y])):
        assert torch.relu(empty).shape == (0, 6)
        assert alone("aten::relu") == "empty"
        assert torch.equal(
            torch.cat([torch.empty(0), X, Y]), torch.cat([X, Y])
        )  # eager skips a legacy empty tensor
        assert fallbacks("aten::cat") == {"empty": 1}
        assert hits("aten::cat") == 1


def test_expanded_operands_broadcast():
    row = torch.randn(6)
    with serving(lambda: X + row), eager():
        expected = X + row
    with serving(lambda: X + row):
        assert torch.equal(X + row, expected)
        assert hits("aten::add.Tensor") == 1
        assert torch.equal(X + row.expand(4, 6), expected)  # same values, other strides: another call
        assert fallbacks("aten::add.Tensor") == {"no_match": 1}


def test_alignment_is_of_the_address():
    buffer = torch.randn(4 * 6 + 1)
    aligned, shifted = buffer[:-1].view(4, 6), buffer[1:].view(4, 6)
    assert aligned.data_ptr() % 64 == 0
    with serving(lambda: torch.relu(aligned), align=[16, 16]):
        assert torch.equal(torch.relu(shifted), shifted.clamp(min=0))
        assert alone("aten::relu") == "alignment"
        torch.relu(aligned)
        assert hits("aten::relu") == 1


def test_more_tensors_than_a_guard_holds():
    many = [torch.randn(1) for _ in range(70)]
    assert record(lambda: torch.cat(many)) == []
    with serving(lambda: torch.cat([X, Y])):
        assert torch.equal(torch.cat(many), torch.tensor([t.item() for t in many]))
        assert alone("aten::cat") == "too_large"


def test_lists_are_matched_element_by_element():
    with serving(lambda: torch.cat([X, Y])):
        assert torch.equal(torch.cat([X, Y]), torch.vstack([X, Y]))
        assert hits("aten::cat") == 2
        torch.cat([X, Y, X])
        torch.cat([X, Y], 1)
        torch.cat([X, Y[:3]])
        assert fallbacks("aten::cat") == {"no_match": 3}


# ---- scalars ------------------------------------------------------------------------------------------------------------------------


def test_python_scalars_arrive_as_wrapped_numbers_and_match_by_their_bits():
    with serving(lambda: X + 0.5):
        assert torch.equal(X + 0.5, torch.add(X, torch.full((4, 6), 0.5)))
        assert hits("aten::add.Tensor") == 1
        for other in (0.25, 1, True, -0.5):
            with eager():
                expected = X + other
            assert torch.equal(X + other, expected)
        assert torch.equal(X + torch.tensor(0.5), X + 0.5)  # a 0-dim tensor is no wrapped number
        assert hits("aten::add.Tensor") == 2
        assert fallbacks("aten::add.Tensor")["no_match"] == 6  # with torch.full's operand


def test_wrapped_number_is_described_by_dtype_and_bits():
    (call,) = [r["call"] for r in record(lambda: X * 3)]
    assert call["args"][1] == {
        "name": "other",
        "kind": "wrapped",
        "dtype": "int64",
        "wrapped_number": True,
        "bits": f"{3:016x}",
    }
    three = torch.tensor(3.0)
    (call,) = [r["call"] for r in record(lambda: X * three)]
    assert call["args"][1] == {
        "name": "other",
        "kind": "tensor",
        "dtype": "float32",
        "sizes": [],
        "strides": [],
    }


def test_minus_zero_is_not_zero():
    """x / 0.0 and x / -0.0 differ in every sign."""
    with serving(lambda: X / 0.0):
        assert torch.equal(X / 0.0, X.sign() * math.inf)
        assert hits("aten::div.Tensor") == 1
        assert torch.equal(X / -0.0, X.sign() * -math.inf)
        assert hits("aten::div.Tensor") == 1
    with serving(lambda: X.masked_fill(X > 0, 0.0), only="aten::masked_fill.Scalar"):
        got = X.masked_fill(X > 0, -0.0)
        assert alone("aten::masked_fill.Scalar") == "no_match"
        assert got[X > 0].signbit().all()


def test_scalar_type_matters():
    """pow by 2 and by 2.0, clamp by 0 and by 0.0: equal numbers, other types, other calls."""
    with serving(lambda: torch.pow(X, 2)):
        torch.pow(X, 2.0)
        assert alone("aten::pow.Tensor_Scalar") == "no_match"
        close(torch.pow(X, 2), X * X)
        assert hits("aten::pow.Tensor_Scalar") == 1
    with serving(lambda: torch.add(X, Y, alpha=2)):
        torch.add(X, Y, alpha=2.0)
        torch.add(X, Y)
        assert fallbacks("aten::add.Tensor") == {"no_match": 2}


def test_optional_scalars():
    with serving(lambda: torch.clamp(X, min=-0.5)):
        assert torch.equal(torch.clamp(X, max=0.5), X.minimum(torch.tensor(0.5)))
        assert torch.equal(torch.clamp(X, -0.5, 0.5), X.clamp(-0.5, 0.5))
        assert hits("aten::clamp") == 0
        torch.clamp(X, min=-0.5)
        assert hits("aten::clamp") == 1


def test_strings_and_eps():
    with serving(lambda: F.gelu(X)):
        close(F.gelu(X, approximate="tanh"), X * 0.5 * (1 + torch.tanh(0.7978845608 * (X + 0.044715 * X**3))))
        assert alone("aten::gelu") == "no_match"
    with serving(lambda: F.layer_norm(X, (6,))):
        F.layer_norm(X, (6,), eps=1e-6)
        assert alone("aten::native_layer_norm") == "no_match"


def test_nan_scalar_matches_itself():
    with serving(lambda: X.masked_fill(X > 0, math.nan), only="aten::masked_fill.Scalar"):
        assert X.masked_fill(X > 0, math.nan).isnan().equal(X > 0)
        assert hits("aten::masked_fill.Scalar") == 1


# ---- optional tensors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, torch.randn(6)])
@pytest.mark.parametrize("bias", [None, torch.randn(6)])
def test_optional_tensors_by_their_presence(weight, bias):
    run = lambda: F.layer_norm(X, (6,), weight, bias)  # noqa: E731
    with serving(run):
        with eager():
            expected = run()
        close(run(), expected)
        assert hits("aten::native_layer_norm") == 1
        other = torch.randn(6) if weight is None else None
        F.layer_norm(X, (6,), other, bias)
        assert fallbacks("aten::native_layer_norm") == {"no_match": 1}


def test_undefined_optional_and_none_are_one_call():
    """layer_norm passes an undefined tensor where torch.ops passes nullopt; every kernel reads both as absent."""
    with serving(lambda: F.layer_norm(X, (6,))):
        torch.ops.aten.native_layer_norm(X, [6], None, None, 1e-5)
        torch.native_layer_norm(X, [6], None, None, 1e-5)
        assert hits("aten::native_layer_norm") == 2


# ---- in-place and out forms ---------------------------------------------------------------------------------------------------------


def test_inplace_returns_its_argument():
    with serving(lambda: X.clone().relu_(), only="aten::relu_"):
        x = X.clone()
        assert x.relu_() is x
        assert torch.equal(x, X.clamp(min=0))
        assert hits("aten::relu_") == 1


def test_partial_overlap_is_eagers_error():
    memory = torch.randn(12)
    with serving(lambda: memory[:8].clone().add_(memory[4:]), only="aten::add_.Tensor"):
        assert record(lambda: memory[:8].clone().add_(memory[4:]))
        with pytest.raises(RuntimeError, match="single memory location"):
            memory[:8].add_(memory[4:])
        assert alone("aten::add_.Tensor") == "overlap"


def test_interleaved_views_of_one_memory_run_on_eager():
    """Even and odd columns share no element, but their ranges overlap: eager computes it, so eager must be left to it."""
    memory = torch.randn(4, 12)
    even, odd = memory[:, ::2], memory[:, 1::2]
    with serving(lambda: torch.randn(4, 12)[:, ::2].add_(odd), only="aten::add_.Tensor"):
        expected = even + odd
        even.add_(odd)
        assert alone("aten::add_.Tensor") == "overlap"
        assert torch.equal(even, expected)
        torch.randn(4, 12)[:, ::2].add_(odd)
        assert hits("aten::add_.Tensor") == 1


def test_exact_alias_is_a_call_of_its_own():
    with serving(lambda: torch.add(X, Y, out=torch.empty(4, 6)), only="aten::add.out"):
        x = X.clone()
        torch.add(x, Y, out=x)
        assert alone("aten::add.out") == "no_match"
        assert torch.equal(x, X + Y)

    def aliased():
        x = X.clone()
        return torch.add(x, Y, out=x)

    (call,) = [r["call"] for r in record(aliased) if r["call"]["overload"] == "aten::add.out"]
    assert call["outputs"][0]["alias"] == 0
    with serving(aliased, only="aten::add.out"):
        assert torch.equal(aliased(), X + Y)
        assert hits("aten::add.out") == 1
        assert torch.equal(torch.add(X, Y, out=torch.empty(4, 6)), X + Y)
        assert hits("aten::add.out") == 1


def test_inplace_with_itself_as_operand():
    with serving(lambda: X.clone().add_(Y), only="aten::add_.Tensor"):
        x = X.clone()
        x.add_(x)
        assert torch.equal(x, X + X)
        assert alone("aten::add_.Tensor") == "overlap"


def test_out_of_another_size_is_resized_by_eager():
    with serving(lambda: torch.exp(X, out=torch.empty(4, 6)), only="aten::exp.out"):
        out = torch.empty(4, 6)
        assert torch.exp(X, out=out) is out
        assert hits("aten::exp.out") == 1
        with pytest.warns(UserWarning, match="resized"):
            wrong = torch.exp(X, out=torch.empty(3))
        close(wrong, out)
        assert hits("aten::exp.out") == 1


def test_a_call_that_resized_its_output_is_not_captured():
    with pytest.warns(UserWarning, match="resized"):
        records = record(lambda: torch.exp(X, out=torch.empty(3)))
    assert records == []


def test_expanded_target_is_eagers_error():
    with serving(lambda: X.clone().relu_(), only="aten::relu_"):
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.randn(4, 1).expand(4, 6).relu_()
        assert hits("aten::relu_") == 0


def test_wrong_dtype_of_out_is_eagers_error():
    with serving(lambda: torch.exp(X, out=torch.empty(4, 6)), only="aten::exp.out"):
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.exp(X, out=torch.empty(4, 6, dtype=torch.int64))
        assert hits("aten::exp.out") == 0
