"""`verify` beyond approved plans that end: proposed ones, and one that hangs."""

import time

import pytest
import torch

import kernelforge
import packs
from kernelforge import _pack, _verify
from kernelforge.errors import VerifyFault
from small_net import command


@pytest.fixture(autouse=True)
def clean():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    kernelforge.restore()


def test_a_proposed_plan_is_judged_and_stays_proposed(tmp_path):
    pack = packs.write(tmp_path / "p", state="proposed")
    document = _pack.read(pack)
    found = kernelforge.verify(pack, blocks=6)
    (plan,) = found["plans"]
    assert plan["state"] == "proposed"
    assert plan["status"] in ("ok", "slower")
    assert _pack.read(pack) == document
    assert kernelforge.apply(pack) == []


def test_a_wrong_proposed_plan_is_found_before_anyone_approves_it(tmp_path):
    pack = packs.write(tmp_path / "p", packs.WRONG, state="proposed")
    done = command("verify", str(pack), "--blocks", "6")
    assert done.returncode == 4, done.stderr
    assert "wrong_value" in done.stdout
    assert "(proposed, not served)" in done.stdout


def test_accepting_a_proposed_plan_writes_the_pins_and_no_approval(tmp_path):
    pack = packs.write(tmp_path / "p", state="proposed", device="Another CPU avx2")
    found = kernelforge.verify(pack, blocks=6, accept=True)
    document = _pack.read(pack)
    assert document["plans"][0]["state"] == "proposed"
    assert (document["pins"]["device"] == "Another CPU avx2") == (not found["passed"])


def test_a_process_without_a_line_in_time_is_killed_and_each_line_winds_the_clock():
    code = "import sys, time; print('{\"begin\": \"p-1\"}', flush=True); print('talk', file=sys.stderr, flush=True); time.sleep(600)"
    begin = time.monotonic()
    last, ended, talk = _verify._followed(["-S", "-c", code], {}, 5)
    assert (last, ended, talk) == ({"begin": "p-1"}, None, "talk\n")
    assert time.monotonic() - begin < 120
    last, ended, _ = _verify._followed(["-S", "-c", "print('{\"passed\": 1}')"], {}, 60)
    assert (last, ended) == ({"passed": 1}, 0)


@pytest.mark.slow
def test_a_plan_that_hangs_is_killed_and_named(tmp_path):
    pack = packs.write(tmp_path / "p", packs.HANG)
    with pytest.raises(VerifyFault, match="plan p-relu did not end within 60 s") as e:
        kernelforge.verify(pack, plan_seconds=60)
    assert "--plan-s" in e.value.hint
    assert e.value.exit_code == 4


def test_a_process_that_does_not_even_start_is_late_too(tmp_path):
    pack = packs.write(tmp_path / "p")
    with pytest.raises(VerifyFault, match=r"its start did not end within 0.05 s"):
        kernelforge.verify(pack, plan_seconds=0.05)
