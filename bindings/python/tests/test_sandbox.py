"""The sandbox as a user meets it: the tier that is asked for, and the doctor's rows of what each one stops."""

from __future__ import annotations

import argparse

import pytest
import torch

import kernelforge
from kernelforge import _core, _doctor, _doctor_sandbox, _settings
from kernelforge.cli import optimize as command
from kernelforge.errors import UsageFault


@pytest.mark.parametrize("tier", [-1, 3, 17])
def test_a_tier_that_does_not_exist_is_refused(tier: int) -> None:
    with pytest.raises(UsageFault, match="no such sandbox tier") as refused:
        kernelforge.optimize(torch.nn.ReLU(), torch.ones(8), tier=tier)
    assert "doctor" in refused.value.hint


def test_the_command_line_takes_a_tier() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add(parser)
    assert parser.parse_args(["model.py:make"]).tier is None
    assert parser.parse_args(["model.py:make", "--tier", "1"]).tier == 1
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["model.py:make", "--tier", "3"])


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, _doctor.Check]:
    if not _core.WORKER.exists() or _settings.compiler() is None:
        pytest.skip("no worker or no compiler to confine")
    with pytest.MonkeyPatch.context() as m:  # made before a test has its home
        m.setenv("KERNELFORGE_HOME", str(tmp_path_factory.mktemp("home")))
        return {check.name: check for check in _doctor.checks() if check.name.startswith("sandbox tier")}


def test_the_doctor_says_what_each_tier_stops(rows: dict[str, _doctor.Check]) -> None:
    assert list(rows) == [f"sandbox tier {tier}" for tier in _settings.TIERS]
    lowest = rows["sandbox tier 0"]
    assert lowest.ok is True and "could" in lowest.found and "read a secret file" in lowest.found
    found = _doctor_sandbox.tried(_doctor_sandbox.HOST)
    defaults = 0
    for tier in (1, 2):
        check = rows[f"sandbox tier {tier}"]
        attempts = [a for p in found[tier]["processes"] for a in p["attempts"] if a["tier"] <= tier]
        if check.ok:  # then nothing that was tried was possible, in either process
            assert {p["name"] for p in found[tier]["processes"]} == {"worker", "compiler"}
            assert len(attempts) > 40 and all(a["stopped"] for a in attempts)
        else:
            assert check.ok is None and check.hint and found[tier]["why"]
        defaults += "used by default" in check.found
    assert defaults == any(rows[f"sandbox tier {tier}"].ok for tier in (1, 2))


def test_a_worker_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _doctor_sandbox.tried.cache_clear()
    monkeypatch.setattr(_core, "WORKER", _core.WORKER.with_name("not-there"))
    with pytest.raises(kernelforge.KernelForgeError, match="not-there"):
        _doctor_sandbox.tried(_doctor_sandbox.HOST)
