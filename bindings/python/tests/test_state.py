"""A study runs the caller's model dozens of times: afterwards the model, its inputs and chance are what they were."""

import functools
import random

import pytest
import torch

import kernelforge
from kernelforge import _ext
from kernelforge._place import HOST
from kernelforge._state import kept
from small_net import optimize


class Noisy(torch.nn.Module):
    """Everything that a forward may change: statistics, a counter, a buffer replaced and one made, its input, chance."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)
        self.register_buffer("step", torch.zeros(()))
        self.register_buffer("none", None)

    def forward(self, x):
        self.step = self.step + random.random() + 1
        self.register_buffer("made", torch.ones(2))
        x.add_(1)
        return torch.nn.functional.dropout(self.norm(x), 0.5, self.training)


def _state(model):
    return {n: b.clone() for n, b in model.named_buffers() if n != "made"}


def _same(a, b):
    assert a.keys() == b.keys()
    assert all(torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: m.forward, lambda m: functools.partial(m)])
def test_buffers_inputs_and_chance_are_put_back(wrap):
    model, x = Noisy().train(), torch.randn(4, 8)
    before, given, step = _state(model), x.clone(), model.step
    chance, own = torch.get_rng_state(), random.getstate()
    with kept(wrap(model), (x,), HOST):
        for _ in range(3):
            wrap(model)(x)
        assert model.norm.num_batches_tracked == 3
    _same(_state(model), before)
    assert model.step is step
    assert torch.equal(x, given)
    assert torch.equal(torch.get_rng_state(), chance)
    assert random.getstate() == own
    assert model.training
    assert "made" in dict(model.named_buffers())  # a flag of the model may say that it is there


def test_they_are_put_back_when_the_model_raises():
    model, x = Noisy().train(), torch.randn(4, 8)
    before = _state(model)
    with pytest.raises(RuntimeError, match="stop"), kept(model, (x,), HOST):
        model(x)
        raise RuntimeError("stop")
    _same(_state(model), before)


def test_a_buffer_that_did_not_change_is_not_written():
    """A write would break the backward pass of a caller who has run the model already."""
    model, x = Noisy().eval(), torch.randn(4, 8)
    version = model.norm.running_mean._version
    with torch.no_grad(), kept(model, (x,), HOST):
        model.norm(x)
    assert model.norm.running_mean._version == version


def test_inference_tensors_and_plain_functions():
    with torch.inference_mode():
        model, x = Noisy().train(), torch.randn(4, 8)
    before = _state(model)
    with torch.inference_mode(), kept(model, (x,), HOST):
        model(x)
    _same(_state(model), before)
    with kept(torch.relu, None, HOST), kept(torch.relu, lambda: (x,), HOST):
        torch.rand(1)


def test_types_that_torch_does_not_compare_are_put_back():
    model = torch.nn.Module()
    model.register_buffer("scale", torch.ones(3).to(torch.float8_e4m3fn))
    with kept(model, None, HOST):
        model.scale.copy_(torch.zeros(3).to(torch.float8_e4m3fn))
    assert model.scale.float().tolist() == [1.0, 1.0, 1.0]


def test_keeping_is_not_counted():
    _ext.load()
    model, x = Noisy().train(), torch.randn(4, 8)
    kernelforge.stats(reset=True)
    with kept(model, (x,), HOST):
        pass
    assert kernelforge.stats()["ops"] == {}


def test_profile_and_explain_leave_a_model_in_training_as_it_was():
    model, x = Noisy().train(), torch.randn(4, 8)
    before, chance = _state(model), torch.get_rng_state()
    kernelforge.profile(model, (x,), forwards=2)
    kernelforge.explain(model, (x,))
    _same(_state(model), before)
    assert torch.equal(torch.get_rng_state(), chance)
    assert model.training


@pytest.mark.usefixtures("clean")
def test_optimize_leaves_a_model_in_training_as_it_was(net):
    model, _ = net
    model.train()
    before, chance = _state(model), torch.get_rng_state()
    optimize(net, candidates=1)
    _same(_state(model), before)
    assert torch.equal(torch.get_rng_state(), chance)
    assert model.training
    assert model.norm.training


def test_a_model_that_writes_into_its_inputs_finds_them_as_given():
    """Each of the dozens of forwards of a profile, an `explain` or a comparison would else start from what the one before left."""

    class Writes(torch.nn.Module):
        def forward(self, x, more, *, mask=None):
            x.mul_(1e20)
            more[0].add_(1)
            if mask is not None:
                mask.logical_not_()
            return torch.relu(x)

    model, inputs = Writes(), ((torch.ones(4), [torch.zeros(3)]), {"mask": torch.tensor([True, False])})
    with torch.no_grad():
        kernelforge.profile(model, inputs, forwards=3)
        kernelforge.explain(model, inputs)
    (x, (more,)), given = inputs
    assert torch.equal(x, torch.ones(4))
    assert torch.equal(more, torch.zeros(3))
    assert given["mask"].tolist() == [True, False]


def test_chance_of_numpy_is_put_back():
    numpy = pytest.importorskip("numpy")
    before = numpy.random.get_state()[1].copy()
    with kept(torch.relu, None, HOST):
        numpy.random.rand(1000)
    assert (numpy.random.get_state()[1] == before).all()
