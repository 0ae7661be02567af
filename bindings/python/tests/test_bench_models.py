"""bench/models.py: it ends with its budget, leaves what it had, and goes on; the pack of a machine that is gone says nothing."""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import models  # noqa: E402


def test_what_runs_beyond_its_time_is_interrupted_and_what_does_not_is_left_alone(monkeypatch):
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), models.interrupted_after(0.2):
        time.sleep(60)
    assert time.monotonic() - began < 30
    monkeypatch.setattr(models, "SECOND_S", 0.1)
    with models.interrupted_after(0.1):
        pass
    time.sleep(0.4)  # an interrupt would end the test


class Pools(torch.nn.Module):
    def forward(self, image):
        return torch.nn.functional.max_pool2d(image, 3, 2, ceil_mode=True)


@pytest.fixture
def stages(tmp_path, monkeypatch, clean):
    """Carry out the stages for a small model on the host, within some seconds; give the result."""
    monkeypatch.setenv("KERNELFORGE_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(
        models.MODELS, "pools", lambda device, tiny: (Pools(), (torch.randn(2, 16, 96, 96),), "")
    )
    monkeypatch.setitem(models.TITLES, "pools", "pools")

    def made(seconds, **more):
        given = {
            "model": "pools",
            "budget_s": 60.0,
            "candidates": 4,
            "fresh": False,
            "commit": "abc",
            "tier": 0,
        }
        return models.stages(
            argparse.Namespace(**given | more), tmp_path / "pools.json", time.monotonic() + seconds
        )

    return made


def test_a_search_that_is_interrupted_goes_on_and_served_again_waits_for_its_pack(
    stages, tmp_path, monkeypatch
):
    with pytest.raises(KeyboardInterrupt):
        stages(0.0)
    assert not (tmp_path / "pools.json").exists()
    monkeypatch.setattr(models, "LEAST_SERVED_S", 1e9)
    result = stages(200.0)
    assert json.loads((tmp_path / "pools.json").read_text()) == json.loads(json.dumps(result))
    assert result["commit"] == "abc" and result["wanted"] == {"budget_s": 60.0, "candidates": 4, "tier": 0}
    assert result["rows"] and not (tmp_path / "pools.partial.json").exists()
    asked = []
    monkeypatch.setattr(models, "LEAST_SERVED_S", 1.0)
    monkeypatch.setattr(models, "begin_served", lambda *given: asked.append(given))  # it needs a device
    if not result["pack_in"]:
        pytest.skip("no gain was confirmed on this machine, so there is no pack")
    assert "served_again" not in stages(60.0) and len(asked) == 1, "it had no time: the next call tries again"
    shutil.rmtree(models.ROOT / result["pack_in"])
    assert "served_again" not in stages(60.0) and len(asked) == 1


def test_a_search_that_was_interrupted_leaves_what_it_had(tmp_path, monkeypatch):
    path = tmp_path / "x.partial.json"
    monkeypatch.setattr(models, "PARTIAL_S", 60.0)
    for kind in (None, KeyboardInterrupt):
        path.write_text("{}")
        partial = models.Partial(path, "x")
        partial.start()
        partial.__exit__(kind, None, None)
        assert path.exists() == (kind is not None)
