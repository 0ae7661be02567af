"""bench/published.py: the models of the paper that come from diffusers and transformers, where these are installed; clear words where they are not."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import published  # noqa: E402

from kernelforge._inputs import tensors_of  # noqa: E402
from kernelforge.errors import EnvironmentFault  # noqa: E402

NAMES = {
    "sd35": "diffusers",
    "gemma4": "transformers",
    "gemma4_token": "transformers",
    "qwen35": "transformers",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_without_its_library_says_what_to_install(name, monkeypatch):
    def missing(what):
        raise ImportError(f"No module named '{what}'")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(EnvironmentFault, match=f"{NAMES[name]} cannot be imported") as e:
        getattr(published, name)(tiny=True)
    assert "pip install" in e.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_a_model_computes_finite_numbers_in_its_type_and_the_same_ones_again(name):
    pytest.importorskip(NAMES[name])
    with torch.no_grad():
        outputs = []
        for _ in range(2):
            model, inputs = getattr(published, name)(tiny=True)
            assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
            outputs.append(next(tensors_of(model(**inputs))))
    assert outputs[0].dtype == torch.bfloat16 and outputs[0].isfinite().all() and outputs[0].std() > 0
    assert torch.equal(*outputs)


@pytest.mark.parametrize("name", ["SD35", "GEMMA4", "QWEN35"])
def test_tiny_sizes_are_sizes_of_the_configuration(name):
    full, tiny = getattr(published, name), getattr(published, f"{name}_TINY")
    assert tiny.keys() <= full.keys()
    assert all(v < full[k] for k, v in tiny.items() if isinstance(v, int))
