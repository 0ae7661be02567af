"""`disabled()` holds whatever happens inside it: an extension that loads, a pack that is applied, a measurement that needs plans on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernelforge
import packs
from kernelforge import _ext, _measure
from small_net import optimize

PACKAGE = Path(kernelforge.__file__).parent


@pytest.fixture(autouse=True)
def restored():
    yield
    kernelforge.restore()


def _python(code):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_extension_that_loads_inside_begins_switched_off(tmp_path):
    pack = packs.write(tmp_path / "p")
    code = f"""
import torch, kernelforge
x = torch.randn(64, 1000)
hits = lambda: kernelforge.stats()["ops"].get("aten::relu", {{}}).get("hits", 0)
with kernelforge.disabled():
    with kernelforge.disabled():
        kernelforge.apply({str(pack)!r})
        torch.relu(x)
    torch.relu(x)
    print(hits())
torch.relu(x)
print(hits())
"""
    assert _python(code).split() == ["0", "1"]


def test_a_measurement_puts_the_switch_back_as_it_stood():
    extension = _ext.load()
    seen = []

    def forward():
        seen.append(extension.enabled())

    with kernelforge.disabled(), _ext.switch(extension) as switch:
        _measure.time_model(forward, switch, blocks=6, seed=0)
        assert set(seen) == {True, False}
    assert extension.enabled()
    with kernelforge.disabled():
        with _ext.switch(extension) as switch:
            switch(True)
        assert not extension.enabled()
        with pytest.raises(RuntimeError, match="stop"), _ext.switch(extension) as switch:
            switch(True)
            raise RuntimeError("stop")
        assert not extension.enabled()
    assert extension.enabled()


@pytest.mark.usefixtures("clean", "surely_faster")
def test_optimize_inside_measures_with_plans_and_leaves_them_off(net):
    model, inputs = net
    with kernelforge.disabled():
        optimize(net)
        data = kernelforge.report().to_dict()
        kernelforge.stats(reset=True)
        with torch.no_grad():
            model(*inputs)
        assert sum(op["hits"] for op in kernelforge.stats()["ops"].values()) == 0
    assert _ext.load().enabled()
    assert data["pack"], data["rows"]
    assert data["model"]["ratio"] == 2.0
    with torch.no_grad():
        model(*inputs)
    assert sum(op["hits"] for op in kernelforge.stats()["ops"].values()) >= 1
