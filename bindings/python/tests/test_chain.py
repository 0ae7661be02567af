"""Errors that add up over chained steps are found, of a model and of an operator; other algorithms' own are not."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from calling import call_of
from kernelforge.referee.cases import Variant
from kernelforge.referee.chain import Drift, chain, drift, drift_of_operator, feed
from kernelforge.referee.reference import run_eager
from kernelforge.referee.rule import CHAIN_NOISE_RUNS, CHAIN_STEPS, UNIT


def draw(*sizes: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=chance, dtype=torch.float64).to(dtype)


WEIGHT = draw(32, 32, seed=5, dtype=torch.float64) / 32**0.5


def _block(x: torch.Tensor) -> torch.Tensor:
    """A residual block: what a network repeats."""
    w = WEIGHT.to(x.dtype)
    return x + 0.2 * torch.tanh(x @ w)


def _block_in_other_words(x: torch.Tensor) -> torch.Tensor:
    w = WEIGHT.to(x.dtype)
    e = torch.expm1(-2 * (x @ w).abs())
    return x + 0.2 * (-e / (e + 2)).copysign(x @ w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_valid_algorithm_drifts_no_further_than_eager(dtype: torch.dtype) -> None:
    found = drift("model", _block, _block_in_other_words, _block, draw(64, 32, dtype=dtype))
    assert found.status == "ok" and found.steps == CHAIN_STEPS and 0 < found.worst < 1, found
    without = drift("model", _block, _block_in_other_words, None, draw(64, 32, dtype=dtype))
    assert without.status == "ok" and "against eager" in without.detail


def test_a_bias_of_less_than_a_rounding_adds_up() -> None:
    def biased(x: torch.Tensor) -> torch.Tensor:
        out = _block(x)
        # Every sixth element one step outward: no single run shows more than the rule allows of each element.
        outward = torch.nextafter(out, out.sign() * torch.inf)
        return torch.where(torch.arange(out.shape[1]) % 2 == 0, outward, outward)

    x = draw(64, 32)
    once = (biased(x).double() - _block(x).double()).abs() / _block(x).double().abs()
    assert float(once.max()) <= 2 * UNIT[torch.float32]

    def unscaled(
        step: Any,
    ) -> Any:  # the feedback takes out what scales all elements alike; a bias of one half does not
        return lambda y: torch.where(torch.arange(y.shape[1]) < 16, step(y), _block(y))

    found = drift("model", _block, unscaled(lambda y: biased(biased(biased(y)) - biased(y) + y)), _block, x)
    assert found.status == "wrong_value"
    assert (
        "chained steps" in found.detail and "eager's own drift" in found.detail and "at most" in found.detail
    )


def test_eager_itself_is_bitwise_equal_and_costs_no_reference() -> None:
    def never(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("nothing in float64 is needed")

    found = drift("model", _block, _block, never, draw(8, 32))
    assert found == Drift("ok", "model", CHAIN_STEPS, 0.0, found.detail) and "bitwise equal" in found.detail


def test_chains_of_any_length_hold_a_few_outputs_alone() -> None:
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    most = 0

    def held(step: Any) -> Any:
        def run(x: torch.Tensor) -> torch.Tensor:
            nonlocal most
            out: torch.Tensor = step(x)
            alive.add(out)
            most = max(most, len(alive))
            return out

        return run

    x = draw(8, 32)
    found = drift("model", held(_block), held(_block_in_other_words), held(_block), x, 12)
    assert found.status == "ok" and found.steps == 12
    assert most <= 3 * (3 + CHAIN_NOISE_RUNS) < 12 * 3  # the last and the next of each chain, never all 12


def test_a_chain_is_cut_where_eager_itself_is_lost() -> None:
    def chaos(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(40 * x)

    def nearly(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(40 * x) + 0.0 * x

    found = drift("model", chaos, lambda x: chaos(x) * (1 + 2**-23), chaos, draw(64, 32))
    assert found.status == "ok" and found.steps < CHAIN_STEPS and "eager's own drift" in found.detail


def test_an_output_is_fed_back_in_the_shape_and_with_the_moments_of_the_input() -> None:
    image, logits = draw(4, 3, 20, 20) * 2 + 1, draw(4, 10, seed=2)
    x = feed(logits, image)
    assert x.shape == image.shape and x.dtype is image.dtype
    assert float(x.mean() - image.mean()) == pytest.approx(0, abs=1e-5)
    assert float(x.std(correction=0) / image.std(correction=0)) == pytest.approx(1, abs=1e-5)
    assert torch.equal(x[1].reshape(-1)[:10], x[1].reshape(-1)[10:20])  # a sample stays a sample
    assert not torch.equal(x[0], x[1])
    assert bool(torch.isfinite(feed(torch.full((4, 10), torch.inf), image)).all())
    assert len(list(chain(_block, draw(2, 32), 5))) == 5


@pytest.mark.parametrize(
    ("overload", "payload"),
    [
        ("aten::_softmax", [draw(16, 40), 1, False]),
        ("aten::native_layer_norm", [draw(16, 40), [40], None, None, 1e-5]),
        ("aten::max_pool2d_with_indices", [draw(2, 3, 12, 12), [2, 2], [2, 2], [0, 0], [1, 1], False]),
        ("aten::relu_", [draw(16, 40)]),
        ("aten::mean.dim", [draw(16, 40), [1], False, None]),
        ("aten::silu", [draw(16, 40, dtype=torch.bfloat16)]),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_an_operator_is_chained_with_itself(overload: str, payload: list[Any]) -> None:
    v = Variant(call_of(overload, payload), payload, 1)
    same = drift_of_operator(v, lambda a: run_eager(v.overload, a))
    assert (
        isinstance(same, Drift)
        and same.status == "ok"
        and "bitwise" in same.detail
        and same.level == "operator"
    )

    def off(a: list[Any]) -> list[torch.Tensor]:
        first, *rest = run_eager(v.overload, a)
        lean = torch.linspace(0.9, 1.1, first.numel()).reshape(first.shape)
        return [(first.double() * lean).to(first.dtype), *rest]

    wrong = drift_of_operator(v, off)
    assert isinstance(wrong, Drift) and wrong.status == "wrong_value" and v.overload.operator in wrong.detail


def test_an_operator_without_floats_is_not_chained() -> None:
    payload = [torch.arange(12).reshape(3, 4)]
    assert (
        drift_of_operator(Variant(call_of("aten::relu", payload), payload, 1), lambda a: [])
        == "it computes nothing floating"
    )
