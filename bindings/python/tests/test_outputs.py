"""Outputs are held against each other only where that says something: a model that repeats itself, values that can be read."""

import numpy
import pytest
import torch

from kernelforge import _ext, _outputs
from kernelforge._html import body
from kernelforge._report import text_of
from kernelforge.referee.model import Model, confirm_model, outputs_of


class Counts(torch.nn.Module):
    """A model with state of its own that no buffer shows."""

    def __init__(self, step):
        super().__init__()
        self.calls, self.step = 0, step

    def forward(self, x):
        self.calls += 1
        return torch.relu(x) + self.step * (self.calls > 2)


def _judged(model, *inputs):
    extension = _ext.load()
    return Model(lambda: model(*inputs), model, inputs).judge(extension)


X = torch.linspace(-1, 1, 64)


@pytest.mark.parametrize("step", [1e-7, 1.0])
def test_a_model_that_does_not_repeat_itself_is_not_compared(step):
    class Each(Counts):
        def forward(self, x):
            self.calls += 1
            return torch.relu(x) + self.step * self.calls

    status, detail = _judged(Each(step), X)
    assert (status, detail) == ("not_compared", _outputs.NOT_REPEATED)


def test_one_that_changes_later_is_no_plans_fault():
    status, detail = _judged(Counts(1.0), X)
    assert (status, detail) == ("not_compared", _outputs.NOT_REPEATED)


def test_chance_of_numpy_is_put_back_so_such_a_model_repeats():
    status, _ = _judged(lambda x: torch.relu(x) * float(numpy.random.rand()), X)
    assert status == "ok"


def test_a_model_that_repeats_itself_is_compared():
    status, detail = _judged(torch.nn.ReLU(), X)
    assert (status, detail) == ("ok", "bitwise equal to eager")


def test_parameters_that_change_under_plans_speak_against_them():
    class Spoiled(torch.nn.Module):
        """Stands for a kernel that writes past its output, into a weight, whenever plans serve."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x):
            if _ext.load().enabled():
                self.weight.data[3] = 5.0
            return x * self.weight

    with torch.no_grad():
        status, detail = _judged(Spoiled(), X + 2)
    assert (status, detail) == ("wrong_value", "the model's parameters changed while the plans ran")


def test_the_core_is_told_ok_and_the_report_not_compared():
    model = Counts(1.0)
    answer = confirm_model(lambda: model(X), Model(lambda: model(X), model, (X,)), [], 2, 0)
    assert answer["status"] == "ok"
    assert len(answer["on_ms"]) == 2
    told = _outputs.told(answer["status"], answer["detail"])
    assert told["status"] == "not_compared"
    assert _outputs.told("wrong_value", "output 0: error 3")["status"] == "wrong_value"


def test_a_report_claims_nothing_of_outputs_that_were_not_compared():
    from test_report import _report

    data = _report(outputs=_outputs.told("ok", _outputs.NOT_REPEATED)).to_dict()
    assert "outputs: not compared: the model does not repeat itself" in text_of(data)
    page = body(data)
    assert "<b>not compared</b>" in page
    assert "<b>equal</b>" not in page


# ---- kinds of tensors -------------------------------------------------------------------------------------------

DENSE = torch.tensor([[0.0, 1.5, 0.0], [-2.0, 0.0, 0.5]])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to_sparse_csr(),
        lambda x: torch.nested.nested_tensor([x, x[:1]]),
        lambda x: torch.nested.nested_tensor([x, x[:1]], layout=torch.jagged),
        lambda x: torch.complex(x, -x),
        lambda x: torch.complex(x, -x).conj(),
        lambda x: torch.quantize_per_tensor(x, 0.5, 0, torch.qint8),
        lambda x: x.to(torch.float8_e4m3fn),
        lambda x: x.to_mkldnn(),
        lambda x: (x > 0, x.to(torch.int64), torch.empty(0)),
    ],
    ids=["coo", "csr", "nested", "jagged", "complex", "conj", "quantized", "float8", "mkldnn", "several"],
)
@pytest.mark.filterwarnings("ignore")
def test_outputs_of_every_kind_are_compared(make):
    try:
        make(DENSE)
    except (RuntimeError, NotImplementedError) as e:
        pytest.skip(f"this torch cannot make one: {e}")
    status, detail = _judged(lambda x: make(torch.relu(x)), DENSE)
    assert (status, detail) == ("ok", "bitwise equal to eager")
    parts = outputs_of(lambda: make(DENSE))
    other = [p.clone() for p in parts]
    changed = next(p for p in other if p.numel())
    changed.view(-1)[0] = changed.view(-1)[0].logical_not() if changed.dtype == torch.bool else 3
    assert _outputs.compare_tensors(parts, other)["status"] == "wrong_value"


def test_an_output_without_values_is_not_compared_and_says_why():
    status, detail = _judged(lambda x: torch.empty(3, device="meta"), DENSE)
    assert status == "not_compared"
    assert "meta" in detail


def test_an_output_of_a_foreign_kind_is_not_compared_and_says_why():
    class Closed(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is torch.equal:
                raise TypeError("closed")
            return super().__torch_function__(function, types, args, kwargs)

    status, detail = _judged(lambda x: x.as_subclass(Closed), DENSE)
    assert status == "not_compared"
    assert "Closed" in detail


IMAGE = torch.randn(8, 16, 112, 112, generator=torch.Generator().manual_seed(1))


def _pooled(otherwise):
    """Return a function that pools as eager does, and another way where plans serve."""

    def forward(x):
        pool = otherwise if _ext.load().enabled() else torch.nn.functional.adaptive_avg_pool2d
        return pool(x, 7)

    return forward


def _down_then_along(x, to):
    n, c, h, w = x.shape
    rows = x.view(n, c, to, h // to, to, w // to)
    return sum(rows[:, :, :, i] for i in range(h // to)).sum(-1) / ((h // to) * (w // to))


def test_a_function_is_chained_in_float64_where_its_inputs_can_be():
    # Noise says little about a mean: of 256 roundings a sixteenth is left, while eager's own sum is off by several.
    forward = _pooled(_down_then_along)
    found = Model(lambda: forward(IMAGE), forward, (IMAGE,)).chained(_ext.load())
    assert found.status == "ok" and "against float64" in found.detail, found
    bad = _pooled(lambda x, to: _down_then_along(x, to).bfloat16().float())
    found = Model(lambda: bad(IMAGE), bad, (IMAGE,)).chained(_ext.load())
    assert found.status == "wrong_value", found


def test_a_function_with_weights_of_its_own_is_held_against_eager():
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(2))

    def forward(x):
        return torch.tanh(x @ (weight.clone() if _ext.load().enabled() else weight)) * (
            1 + 2**-23 * _ext.load().enabled()
        )

    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(3))
    found = Model(lambda: forward(x), forward, (x,)).chained(_ext.load())
    assert found.status == "ok" and "against eager" in found.detail, found
