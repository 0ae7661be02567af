"""What a study's second call serves and says: after review, after approval, under another wish. The report tells what serves, never more."""

import json

import pytest
import torch

import kernelforge
from kernelforge import _core, _pack, _settings, _studies
from kernelforge.errors import UsageFault
from small_net import command, optimize

pytestmark = pytest.mark.usefixtures("clean", "surely_faster")


def _report():
    data = kernelforge.report().to_dict()
    if not data["pack"]:
        pytest.fail(f"no winner to review: {data['rows']}")
    return data


def _applied():
    return sorted(i for ids in _pack.applied().values() for i in ids)


def _hits(net):
    model, inputs = net
    kernelforge.stats(reset=True)
    with torch.no_grad():
        model(*inputs)
    return sum(op["hits"] for op in kernelforge.stats()["ops"].values())


def _consistent(data):
    """Rows, ids and the process agree about what serves."""
    assert _applied() == sorted(data["plans"])
    served = any(r["served"] for r in data["rows"])
    assert served == bool(data["plans"]) == (data["model"]["ratio"] is not None)


def test_under_review_nothing_serves_and_the_rows_say_so(net):
    optimize(net, review=True)
    data = _report()
    assert data["review"]
    _consistent(data)
    assert data["plans"] == []
    row = next(r for r in data["rows"] if r["op"] == "aten::max_pool2d_with_indices")
    assert row["ratio"] == 1.0
    assert row["why"].startswith("winner waits for approval, ")
    assert _hits(net) == 0


def test_a_call_without_review_after_one_with_it_serves(net):
    optimize(net, review=True)
    _report()
    optimize(net)
    data = _report()
    _consistent(data)
    assert data["plans"]
    assert not data["review"]
    assert _hits(net) >= 1


def test_a_call_with_review_after_one_without_it_takes_the_winners_back(net, tmp_path):
    optimize(net)
    pack = _report()["pack"]
    assert _applied()
    optimize(net, review=True)
    data = _report()
    _consistent(data)
    assert data["plans"] == []
    assert _hits(net) == 0
    assert {p["state"] for p in _pack.read(pack)["plans"]} == {"proposed"}
    script = tmp_path / "s.py"
    script.write_text("print('ran')\n")
    done = command("run", str(script))
    assert "no plan serves" in done.stderr, done.stderr


@pytest.mark.parametrize("by", ["study", "pack"])
def test_what_was_approved_serves_in_the_next_call_and_is_measured(net, by):
    optimize(net, review=True)
    data = _report()
    done = command("approve", data[by], "--json")
    assert done.returncode == 0, done.stderr
    approved = json.loads(done.stdout)["approved"]
    assert approved
    optimize(net, review=True)
    data = _report()
    _consistent(data)
    assert sorted(data["plans"]) == sorted(approved)
    assert data["outputs"]["status"] == "ok"
    assert _hits(net) >= 1
    store = str(_settings.read().store)
    _studies.take_approvals(data["study"], store, _pack.folder_of(data["pack"]))  # as every search does first
    _core.call("pack.write", store=store, study=data["study"], path=data["pack"], review=True)
    assert {p["state"] for p in _pack.read(data["pack"])["plans"] if p["id"] in approved} == {"approved"}
    again = optimize(net, review=True)
    assert again is net[0]
    assert _report()["reused"]
    _consistent(_report())


# ---- one name, several models ----------------------------------------------------------------------------------


class Other(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(torch.sigmoid(x), 2)


def test_a_name_answers_for_one_model_and_its_calls_only(net):
    model, inputs = net
    optimize(net, study="exp", candidates=1)
    first = kernelforge.report().to_dict()
    for other, given, why in (
        (Other(), inputs, r"it is about the model `Net` \(asked: `Other`\)"),
        (model, (torch.randn(1, 3, 64, 64),), "it is about other calls"),
    ):
        with pytest.raises(UsageFault, match=f"resume the study `exp`: {why}") as e:
            optimize((other, given), study="exp", candidates=1)
        assert "fresh=True" in e.value.hint
        assert e.value.exit_code == 2
    optimize(net, study="exp", candidates=1)
    again = kernelforge.report().to_dict()
    assert again["reused"]
    assert again["rows"] == first["rows"]
    optimize((Other(), inputs), study="exp", candidates=1, fresh=True)
    assert kernelforge.report().to_dict()["name"] == "Other"


def test_an_unfinished_study_is_not_taken_up_by_another_model(net, monkeypatch):
    def stop(*args, **kwargs):
        kernelforge._core.call("study.close", study="exp")
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelforge._search.drive", stop)
    with pytest.raises(KeyboardInterrupt):
        optimize(net, study="exp")
    with pytest.raises(UsageFault, match="it is about the model `Net`"):
        optimize((Other(), net[1]), study="exp")
    with pytest.raises(UsageFault, match="it is about calls that this model does not make"):
        optimize((torch.nn.Sigmoid(), net[1]), study="exp", name="Net", ops="sigmoid")
