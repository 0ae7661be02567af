"""A pack that the whole model speaks against is withdrawn: not served, not on disk where `run` finds it, and the result says why."""

import os
import subprocess

import pytest

import kernelforge
from kernelforge import _outcome, _pack, _settings, _studies
from kernelforge.errors import VerifyFault
from small_net import command, optimize

pytestmark = pytest.mark.usefixtures("clean", "surely_faster")

TIMES = {"eager_ms": 9.0, "kernelforge_ms": 9.0, "ratio": 1.0, "low": 0.98, "high": 1.03, "samples": 30}
SLOWER = {**TIMES, "kernelforge_ms": 10.0, "ratio": 0.9, "low": 0.88, "high": 0.92}


def _times(monkeypatch, found):
    monkeypatch.setattr(_outcome, "_whole_model", lambda *args: dict(found))


def _gone(tmp_path):
    assert _pack.applied() == {}
    assert list(_settings.read().pack_folder.rglob("pack.json")) == []
    assert list(_settings.read().cache.rglob("pack.json")) == []
    script = tmp_path / "s.py"
    script.write_text("print('ran')\n")
    done = command("run", str(script))
    assert "no plan serves" in done.stderr, done.stderr


def _winner(data):
    return next(r for r in data["rows"] if r["op"] == "aten::max_pool2d_with_indices")


def test_outputs_that_are_not_right_leave_no_pack_and_are_in_the_store(net, monkeypatch, tmp_path):
    optimize(net)
    if not _pack.applied():
        pytest.fail("no winner to withdraw")
    wrong = {"status": "wrong_value", "detail": "output 0: error 3 (eager's 1)"}
    monkeypatch.setattr(_outcome, "_outputs", lambda *args: dict(wrong))
    for candidates in (5, 5):  # the second call must not answer from what was refused
        with pytest.raises(
            VerifyFault, match=r"not as right as eager's: output 0: error 3 .*there is no pack"
        ):
            optimize(net, candidates=candidates)
        _gone(tmp_path)
    study = _studies.studies(None)[0]["study"]
    data = kernelforge.report(study).to_dict()
    assert data["pack"] is None
    assert data["outputs"] == wrong
    assert "not as right as eager's" in data["withdrawn"]
    assert not any(r["served"] for r in data["rows"])


def test_a_model_that_is_slower_withdraws_the_pack_and_one_that_is_not_surely_faster_says_so(
    net, monkeypatch, tmp_path
):
    _times(monkeypatch, SLOWER)
    optimize(net)
    data = kernelforge.report().to_dict()
    if not data["withdrawn"]:
        pytest.fail(f"no winner to withdraw: {data['rows']}")
    assert data["withdrawn"].startswith("the whole model is slower with plans (0.90x")
    assert (data["pack"], data["plans"], data["model"]["ratio"]) == (None, [], 0.9)
    assert _winner(data)["why"].startswith("winner withdrawn with the pack")
    assert "withdrawn, eager runs" in str(kernelforge.report())
    _gone(tmp_path)
    optimize(net)  # the finished study answers, and serves nothing either
    assert kernelforge.report().to_dict()["reused"]
    _gone(tmp_path)
    _times(monkeypatch, TIMES)
    optimize(net, candidates=5)
    data = kernelforge.report().to_dict()
    assert data["model"]["finding"] == "no gain of the whole model shown"
    assert data["pack"]
    assert "no gain of the whole model shown" in str(kernelforge.report())
    _times(monkeypatch, SLOWER)
    import packs

    other = packs.write(
        tmp_path / "other"
    )  # of no study: `--out` names it, and the pack that would replace it is withdrawn
    before = _pack.read(other)
    optimize(net, candidates=5, seed=1, out=other)
    assert kernelforge.report().to_dict()["withdrawn"]
    assert _pack.read(other) == before
    assert str(other) not in _pack.applied()


def test_a_search_that_is_interrupted_while_the_model_is_measured_leaves_no_pack(net, monkeypatch, tmp_path):
    def stop(*args):
        assert _pack.applied()
        assert list(_settings.read().pack_folder.glob("*")) == []
        raise KeyboardInterrupt

    monkeypatch.setattr(_outcome, "_whole_model", stop)
    with pytest.raises(KeyboardInterrupt):
        optimize(net)
    _gone(tmp_path)


def test_a_trial_that_a_killed_process_left_is_removed_and_one_that_runs_stays(net, home):
    ended = subprocess.Popen(["true"])
    ended.wait()
    old = home / "cache" / "trial" / f"a.{ended.pid}"
    new = home / "cache" / "trial" / f"b.{os.getppid()}"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    optimize(net, candidates=1)
    assert not old.exists()
    assert new.exists()


def test_run_does_not_serve_a_pack_that_is_being_written(tmp_path):
    import packs

    packs.write(_settings.read().pack_folder / ".mine-123")
    script = tmp_path / "s.py"
    script.write_text("print('ran')\n")
    assert "no plan serves" in command("run", str(script)).stderr
