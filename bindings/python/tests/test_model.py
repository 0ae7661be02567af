"""MODEL on the command line: files, modules, built-in names, and what is said when something is off."""

import argparse
import os
import sys

import pytest

from kernelforge import _inputs, _model
from kernelforge._model import Wanted, make
from kernelforge.cli import options
from kernelforge.errors import EnvironmentFault, ModelFault, UsageFault

torch = pytest.importorskip("torch")


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "a_model.py"
    path.write_text(
        "import torch\n"
        "def make(batch=2, dtype=torch.float32):\n    return torch.nn.Linear(4, 4).to(dtype), (torch.randn(batch, 4, dtype=dtype),)\n"
        "def bare():\n    return torch.nn.Linear(4, 4)\n"
        "NUMBER = 3\n"
    )
    yield path
    sys.modules.pop("a_model", None)


def test_a_file_with_a_factory_gets_the_options_it_has_parameters_for(model_file):
    made = make(Wanted(f"{model_file}:make", batch=5, dtype="float64"))
    assert made.inputs[0].shape == (5, 4)
    assert made.inputs[0].dtype == torch.float64
    assert made.name == "a_model-make-b5-float64"


def test_an_option_without_a_taker_is_an_error_not_ignored(model_file):
    with pytest.raises(UsageFault, match="no parameter `channels_last`"):
        make(Wanted(f"{model_file}:make", channels_last=True))


def test_a_factory_that_returns_no_inputs_is_told_what_to_return(model_file):
    with pytest.raises(UsageFault, match=r"returned a Linear \(expected a model and its inputs\)") as e:
        make(Wanted(f"{model_file}:bare"))
    assert "return (model, (input, ...))" in e.value.hint


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere.py:make", "does not exist"),
        ("no.such.module:make", "no module named `no`"),
        ("json:no_such", "it is not there"),
        ("resnet999", "torchvision has no model of this name"),
        ("file.py", "no factory is named"),
    ],
)
def test_names_that_lead_nowhere(spec, words):
    pytest.importorskip("torchvision")
    with pytest.raises(UsageFault, match=words) as e:
        make(Wanted(spec))
    assert e.value.hint
    assert e.value.exit_code == 2


def test_a_built_in_name_without_torchvision_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(EnvironmentFault, match="torchvision cannot be imported") as e:
        make(Wanted("resnet18"))
    assert "pip install torchvision" in e.value.hint
    assert e.value.exit_code == 5


@pytest.mark.parametrize("device", ["xpu", "cuda:x", "cpu:"])
def test_a_device_without_a_target_is_refused_before_anything_is_made(device):
    with pytest.raises(EnvironmentFault, match="no target serves it"):
        make(Wanted("resnet18", device=device))


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EnvironmentFault, match="use the device `cuda:3`") as e:
        make(Wanted("resnet18", device="cuda:3"))
    assert "kernelforge doctor" in e.value.hint


def test_what_a_factory_made_is_moved_to_the_device():
    linear, (x, named, number) = _model._moved(
        (torch.nn.Linear(2, 2), (torch.ones(2), {"a": [torch.ones(1)]}, 3)), "meta"
    )
    assert (
        {p.device.type for p in linear.parameters()} == {x.device.type, named["a"][0].device.type} == {"meta"}
    )
    assert number == 3


@pytest.mark.parametrize(
    ("short", "name"), [("fp16", "float16"), ("bf16", "bfloat16"), ("float32", "float32")]
)
def test_types_have_short_names_on_the_command_line(short, name):
    assert options.dtype(short) == name


def test_an_unknown_type_lists_what_there_is():
    with pytest.raises(argparse.ArgumentTypeError, match="expected one of float32"):
        options.dtype("fp8")


def test_built_in_models_say_that_their_weights_are_random():
    pytest.importorskip("torchvision")
    made = make(Wanted("squeezenet1_1", batch=1, channels_last=True))
    assert "random weights" in made.note
    assert made.inputs[0].is_contiguous(memory_format=torch.channels_last)


# ---- inputs -----------------------------------------------------------------------------------------------------

X = torch.ones(2)


@pytest.mark.parametrize(
    ("inputs", "args", "kwargs"),
    [(X, 1, 0), ((X, X), 2, 0), ([X], 1, 0), ({"a": X}, 0, 1), (((X,), {"b": X}), 1, 1), (3, 1, 0)],
)
def test_the_forms_of_inputs(inputs, args, kwargs):
    a, k = _inputs.as_call(inputs)
    assert (len(a), len(k)) == (args, kwargs)


@pytest.mark.parametrize("inputs", [None, (), [], {}, ((), {})])
def test_no_inputs_is_an_error_that_lists_the_forms(inputs):
    with pytest.raises(UsageFault, match="no inputs were given") as e:
        _inputs.forward_of(torch.nn.ReLU(), inputs)
    assert "a tensor, a tuple" in e.value.hint


def test_inputs_on_several_devices_are_named():
    with pytest.raises(ModelFault, match=r"an input on cpu, .* on meta|an input on meta, .* on cpu"):
        _inputs.forward_of(torch.nn.Linear(2, 2, device="meta"), torch.ones(1, 2))


def test_a_device_without_a_target_is_refused():
    with pytest.raises(EnvironmentFault, match="on meta: no target serves it"):
        _inputs.forward_of(torch.nn.Linear(2, 2, device="meta"), torch.ones(1, 2, device="meta"))


def test_a_model_that_raises_is_one_error_with_its_cause():
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise KeyError("no such weight")

    with pytest.raises(ModelFault, match="run `Broken`: it raised KeyError: 'no such weight'") as e:
        _inputs.forward_of(Broken(), X)()
    assert isinstance(e.value.__cause__, KeyError)
    assert e.value.exit_code == 2


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(UsageFault, match="cannot be called"):
        _inputs.forward_of(torch.ones(1), X)


# ---- the user's own errors --------------------------------------------------------------------------------------


@pytest.fixture
def broken_folder(tmp_path, monkeypatch):
    """Modules that do not work, in a folder that is on the path."""
    for name, text in {
        "raises": "import torch\ndef make():\n    return inner()\ndef inner():\n    raise ValueError('oh\\nand more')\n",
        "ends": "def make():\n    raise SystemExit(3)\n",
        "syntax": "x = 1\ndef make(:\n    pass\n",
        "needs": "import no_such_package_of_mine\ndef make(): pass\n",
        "stops": "import sys\nsys.exit(4)\n",
        "opens": "def make():\n    return open('/no/such/weights.pt')\n",
    }.items():
        (tmp_path / f"{name}_model.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in list(sys.modules):
        if name.endswith("_model") and name.partition("_")[0] in (
            "raises",
            "ends",
            "needs",
            "stops",
            "opens",
        ):
            sys.modules.pop(name)


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("raises", "ValueError: oh", 5),
        ("ends", "SystemExit: 3", 2),
        ("syntax", "SyntaxError: ", 2),
        ("needs", "ModuleNotFoundError: No module named 'no_such_package_of_mine'", 1),
        ("stops", "SystemExit: 4", 2),
        ("opens", "FileNotFoundError: .*weights.pt", 2),
    ],
)
def test_a_users_error_is_one_line_with_its_place(broken_folder, name, words, line, as_module):
    where = f"{name}_model" if as_module else f"{broken_folder / name}_model.py"
    with pytest.raises(ModelFault, match=words) as e:
        make(Wanted(f"{where}:make"))
    assert f"(at {broken_folder}/{name}_model.py:{line})" in e.value.text
    assert "\n" not in e.value.text
    assert e.value.hint
    assert e.value.exit_code == 2


def test_a_callable_that_is_no_factory_is_a_users_error():
    with pytest.raises(ModelFault, match=r"call `os.path:join`: TypeError: join\(\) missing"):
        make(Wanted("os.path:join"))
    with pytest.raises(UsageFault, match="expected a model and its inputs"):
        make(Wanted("math:hypot"))
    with pytest.raises(UsageFault, match="no parameter `batch`"):
        make(Wanted("math:hypot", batch=3))


@pytest.mark.parametrize("spec", [":", ":make", "..a:make", "a-b:make"])
def test_what_is_neither_file_nor_module_is_said_so(spec):
    with pytest.raises(UsageFault, match="neither a Python file nor the name of a module") as e:
        make(Wanted(spec))
    assert e.value.hint


def test_a_batch_that_no_memory_holds_is_an_error_of_usage():
    pytest.importorskip("torchvision")
    with pytest.raises(ModelFault, match="make `squeezenet1_1` with batch 1000000000: RuntimeError") as e:
        make(Wanted("squeezenet1_1", batch=10**9))
    assert e.value.exit_code == 2


# ---- numbers and names out of bounds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (options.seed, (0, -(2**63), 2**63 - 1), ("9" * 23, str(2**63))),
        (
            options.threads,
            (1, os.cpu_count(), 4 * os.cpu_count()),
            ("0", str(4 * os.cpu_count() + 1), "99999"),
        ),
        (options.positive, (1, 10**9), ("0", "-1", "9" * 23)),
    ],
)
def test_numbers_have_bounds_that_are_told(kind, good, bad):
    for value in good:
        assert kind(str(value)) == value
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="expected"):
            kind(text)


@pytest.mark.parametrize("command", ["profile x", "optimize x", "explain x", "demo", "run s.py", "verify p"])
@pytest.mark.parametrize("option", ["--threads=99999", f"--seed={'9' * 23}"])
def test_every_command_holds_the_bounds(command, option, capsys):
    from kernelforge import cli

    name, *arguments = command.split()
    if (name, option[:3]) in (("run", "--s"), ("verify", "--t")):
        pytest.skip("the command has no such option")
    with pytest.raises(SystemExit) as e:
        cli.main([name, option, *arguments])
    assert e.value.code == 2
    assert (
        f"argument {option.partition('=')[0]}: {option.partition('=')[2]} (expected"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"seed": 2**63}, "64 bits"),
        ({"candidates": 10**20}, "at most"),
        ({"max_seconds": float("inf")}, "at most"),
        ({"max_seconds": float("nan")}, "nothing could be tried"),
        ({"ops": "max_pol2d*"}, "fits no operator that is hooked.*near: .*max_pool2d"),
        ({"ops": ["relu", "nosuch"]}, "`nosuch`: it fits no operator"),
        ({"ops": []}, "no operator is named"),
        ({"ops": ""}, "fits no operator"),
    ],
)
def test_optimize_refuses_what_nothing_can_come_of_before_it_runs_the_model(wrong, words):
    import kernelforge

    def model(x):
        raise AssertionError("it ran")

    with pytest.raises(UsageFault, match=words) as e:
        kernelforge.optimize(model, X, **wrong)
    assert e.value.exit_code == 2
