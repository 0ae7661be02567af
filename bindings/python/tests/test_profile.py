"""`profile` on small models: what it attributes, how calls become cards, what it says when it cannot."""

from __future__ import annotations

import doctest
import json
import math
import re
from typing import Any

import pytest
import torch

import kernelforge
from kernelforge import _amdahl, _cards, _roof, _table
from kernelforge._roof import Roof
from kernelforge.errors import EnvironmentFault, ModelFault, UsageFault


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        y = torch.relu(torch.nn.functional.max_pool2d(y, 2))
        y = torch.sort(y, dim=1).values  # not hooked
        return self.last(y.mean((2, 3)))


@pytest.fixture(scope="module")
def found() -> kernelforge._profile.Profile:
    torch.manual_seed(0)
    with torch.no_grad():
        return kernelforge.profile(Net().eval(), torch.randn(2, 3, 64, 64), forwards=3)


def row(p: Any, op: str) -> dict[str, Any]:
    return next(r for r in p.rows if r["op"] == op)


# ---- what is found --------------------------------------------------------------------------------------------------


def test_every_operator_of_the_model_has_a_row(found: Any) -> None:
    names = {r["op"] for r in found.rows}
    assert names >= {
        "aten::mkldnn_convolution",
        "aten::native_batch_norm",
        "aten::relu",
        "aten::max_pool2d_with_indices",
        "aten::mean.dim",
        "aten::addmm",
        "aten::sort",
    }


def test_shares_add_up_and_most_of_a_forward_is_attributed(found: Any) -> None:
    assert math.isclose(sum(r["share"] for r in found.rows), 1.0, rel_tol=1e-9)
    assert math.isclose(sum(r["eager_us"] for r in found.rows), 1e3 * found.operator_ms, rel_tol=1e-9)
    # A forward of a millisecond is half Python, and one pause of the machine outside an operator is the other half: the best of some, as a roof is.
    # The bound of a real model is in bench/.
    best = found.attributed
    for _ in range(9):
        if best <= 0.5:
            with torch.no_grad():
                again = kernelforge.profile(Net().eval(), torch.randn(2, 3, 64, 64), forwards=20)
            best = max(best, again.attributed)
    assert 0.5 < best <= 1.0


def test_calls_are_per_forward_and_variants_differ_in_sizes_only(found: Any) -> None:
    relu = next(c for c in found.cards if c["overload"] == "aten::relu")
    assert [v["calls"] for v in relu["variants"]] == [1, 1]
    assert [v["call"]["args"][0]["sizes"] for v in relu["variants"]] == [[2, 8, 64, 64], [2, 8, 32, 32]]
    assert row(found, "aten::relu")["calls"] == 2
    assert relu["variants"][0]["bytes"] == 2 * 2 * 8 * 64 * 64 * 4


def test_payloads_are_the_arguments_that_the_operator_saw(found: Any) -> None:
    pool = next(c for c in found.cards if c["overload"] == "aten::max_pool2d_with_indices")
    payload = found.payload(pool["id"], "v0")
    assert payload[0].shape == (2, 8, 64, 64)
    assert payload[1:] == [[2, 2], [], [0, 0], [1, 1], False]
    assert bool((payload[0] >= 0).all())  # what comes out of relu
    with pytest.raises(KeyError):
        found.payload("c-none", "v0")


def test_vendor_operators_and_those_not_hooked_are_marked(found: Any) -> None:
    assert (row(found, "aten::mkldnn_convolution")["vendor"], row(found, "aten::addmm")["vendor"]) == (
        True,
        True,
    )
    assert row(found, "aten::mkldnn_convolution")["ceiling"] is None
    assert (row(found, "aten::sort")["card"], row(found, "aten::sort")["hooked"]) == (None, False)
    assert row(found, "aten::relu")["ceiling"] >= 1.0


def test_ids_are_the_hash_of_what_variants_share(found: Any) -> None:
    for card in found.cards:
        ids = {_cards.identity(v["call"], card["layout"]) for v in card["variants"]}
        assert ids == {card["id"]}
    assert len({c["id"] for c in found.cards}) == len(found.cards)


def test_a_scalar_a_dtype_a_rank_or_a_layout_makes_another_card() -> None:
    def call(sizes: list[int], dtype: str = "float32", kernel: int = 3) -> dict[str, Any]:
        tensor = {
            "name": "self",
            "kind": "tensor",
            "dtype": dtype,
            "sizes": sizes,
            "strides": [1] * len(sizes),
        }
        outputs = [{"dtype": dtype, "sizes": sizes, "strides": [1] * len(sizes), "alias": -1}]
        return {
            "overload": "aten::x",
            "args": [tensor, {"name": "k", "kind": "ints", "value": [kernel]}],
            "outputs": outputs,
        }

    base = _cards.identity(call([2, 3]), "contiguous")
    assert _cards.identity(call([4, 5]), "contiguous") == base
    others = [call([2, 3, 1]), call([2, 3], "float16"), call([2, 3], kernel=2)]
    assert base not in {_cards.identity(c, "contiguous") for c in others}
    assert base != _cards.identity(call([2, 3]), "strided")
    assert re.fullmatch("c-[0-9a-f]{8}", base)


def test_cards_follow_the_format(found: Any) -> None:
    for card in found.cards:
        assert set(card) == {
            "schema",
            "id",
            "target",
            "overload",
            "layout",
            "threads",
            "share",
            "children",
            "variants",
        }
        assert card["threads"] == torch.get_num_threads()
        for v in card["variants"]:
            assert set(v) == {"id", "call", "calls", "eager_us", "bytes", "roof_us", "align"}
            assert v["eager_us"] > 0 and v["roof_us"] > 0 and v["calls"] >= 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_ceiling_stays_finite_where_operators_seem_to_take_longer_than_the_forward() -> None:
    one = {
        "op": "aten::relu",
        "card": "c-1",
        "share": 1.0,
        "eager_us": 9000.0,
        "roof_us": 3000.0,
        "ceiling": 3.0,
    }
    p = kernelforge._profile.Profile("net", 2.0, 1.0, [], [one], {})
    assert p.ceiling == pytest.approx(3.0)


def test_the_callers_grad_mode_holds() -> None:
    seen = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return torch.relu(x)

    kernelforge.profile(model, torch.randn(8), forwards=1)
    with torch.inference_mode():
        kernelforge.profile(model, torch.randn(8), forwards=1)
    assert set(seen) == {(True, False), (False, True)}


def test_eager_is_what_is_measured_and_what_served_before_serves_again() -> None:
    extension = kernelforge._ext.load()
    states = []
    kernelforge.profile(
        lambda x: (states.append(extension.enabled()), torch.relu(x))[1], torch.randn(8), forwards=1
    )
    assert set(states) == {False}
    assert extension.enabled()


# ---- inputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs",
    [
        torch.ones(4),
        (torch.ones(4),),
        {"x": torch.ones(4)},
        ((torch.ones(4),), {"scale": 2}),
        lambda: torch.ones(4),
        lambda: {"x": torch.ones(4), "scale": 3},
    ],
)
def test_forms_of_inputs(inputs: Any) -> None:
    p = kernelforge.profile(lambda x, scale=1: torch.relu(x) * scale, inputs, forwards=1)
    assert "aten::relu" in {r["op"] for r in p.rows}


def test_a_function_gives_new_inputs_for_each_forward() -> None:
    given = iter(range(1000))
    seen = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(int(x[0]))
        return torch.relu(x)

    kernelforge.profile(model, lambda: torch.full((4,), float(next(given))), forwards=2)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("inputs", [None, (), {}, []])
def test_no_inputs_is_an_error_with_the_forms(inputs: Any) -> None:
    with pytest.raises(UsageFault, match="no inputs were given") as e:
        kernelforge.profile(torch.relu, inputs)
    assert "give a tensor" in e.value.hint


def test_what_cannot_be_called_is_no_model() -> None:
    with pytest.raises(UsageFault, match="cannot be called"):
        kernelforge.profile(3, torch.ones(2))


def test_a_model_that_raises_keeps_its_exception_and_says_at_which_forward() -> None:
    count = iter(range(100))

    def model(x: torch.Tensor) -> torch.Tensor:
        if next(count) == 1:
            raise ValueError("second time\nand more")
        return torch.relu(x)

    with pytest.raises(ModelFault, match=r"forward 2: .*ValueError: second time") as e:
        kernelforge.profile(model, torch.ones(2))
    assert isinstance(e.value.__cause__, ValueError)
    assert kernelforge._ext.load().enabled()


def test_inputs_on_several_devices() -> None:
    with pytest.raises(ModelFault, match="several devices") as e:
        kernelforge.profile(torch.add, (torch.ones(2), torch.ones(2, device="meta")))
    assert e.value.exit_code == 2


def test_a_device_that_is_not_served() -> None:
    with pytest.raises(EnvironmentFault, match="meta"):
        kernelforge.profile(torch.relu, torch.ones(2, device="meta"))


def test_nothing_to_run() -> None:
    with pytest.raises(UsageFault, match="forwards=0"):
        kernelforge.profile(torch.relu, torch.ones(2), forwards=0)


# ---- forms ----------------------------------------------------------------------------------------------------------


def test_the_table_sorts_and_is_limited(found: Any) -> None:
    lines = found.table(row_limit=2).splitlines()
    assert lines[0] == "kernelforge profile: Net"
    assert any("rows are not shown" in line for line in lines)
    by_name = [line.split()[0] for line in found.table(sort_by="op").splitlines()[4 : 4 + len(found.rows)]]
    assert by_name == sorted(by_name)
    with pytest.raises(UsageFault, match="no such column"):
        found.table(sort_by="colour")


def test_operators_that_took_longer_than_the_forward_are_told(found: Any) -> None:
    data = {**found.to_dict(), "forward_ms": 10.0}
    assert "the machine was busy" not in _table.text({**data, "operator_ms": 13.0}, "share", None)
    assert "the machine was busy" in _table.text({**data, "operator_ms": 14.0}, "share", None)
    # On a device the forward is the kernels' time, and launches lie between them.
    assert "busy" not in _table.text({**data, "operator_ms": 14.0, "timed_by": "events"}, "share", None)


def test_the_html_is_one_table_that_needs_nothing_else(found: Any) -> None:
    page = found._repr_html_()
    assert page.count("<tr>") == len(found.rows) + 1
    assert "http" not in page and "<script" not in page


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [_amdahl, _cards, _roof])
def test_examples(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


def test_amdahl_of_the_papers_table_and_its_ends() -> None:
    assert round(kernelforge._amdahl.amdahl_speedup(0.0012, 1.52), 4) == 1.0004
    assert kernelforge._amdahl.amdahl_speedup(0.5) == 2.0
    assert kernelforge._amdahl.amdahl_speedup(1.0) == math.inf
    for share, ratio in ((-0.1, 2), (1.1, 2), (0.5, 0)):
        with pytest.raises(ValueError, match="expected 0 to 1"):
            kernelforge._amdahl.amdahl_speedup(share, ratio)


def test_the_roof_is_interpolated_and_ends_flat() -> None:
    roof = Roof([1 << 10, 1 << 20], [40.0, 10.0])
    assert roof.rate(1) == 40.0
    assert roof.rate(1 << 15) == 25.0
    assert roof.rate(1 << 30) == 10.0
    assert roof.us(1 << 10) == pytest.approx(1024 / 40 / 1e3)
    assert roof.us(0) == 0.0


def test_the_measured_roof_falls_with_size() -> None:
    roof = _roof.measure()
    assert all(a >= b > 0 for a, b in zip(roof.rates, roof.rates[1:], strict=False))


def test_bytes_count_distinct_elements_and_not_what_is_only_overwritten() -> None:
    def tensor(name: str, sizes: list[int], strides: list[int]) -> dict[str, Any]:
        return {"name": name, "kind": "tensor", "dtype": "float32", "sizes": sizes, "strides": strides}

    out = [{"dtype": "float32", "sizes": [6, 8], "strides": [8, 1], "alias": -1}]
    mul = {
        "overload": "aten::mul.Tensor",
        "args": [tensor("self", [6, 8], [8, 1]), tensor("other", [6, 8], [1, 0])],
        "outputs": out,
    }
    assert _roof.bytes_of(mul) == 4 * (48 + 6 + 48)
    copy = {
        "overload": "aten::copy_",
        "args": [tensor("self", [6, 8], [8, 1]), tensor("src", [6, 8], [1, 6])],
        "outputs": out,
    }
    assert _roof.bytes_of(copy) == 4 * (48 + 48)
