"""`optimize` from end to end on a small network: search, pack, dispatch, report; again, resumed, refused."""

import json
import resource
import time

import pytest
import torch

import kernelforge
from kernelforge import _pack, _studies
from kernelforge.errors import EnvironmentFault, ModelFault, UsageFault
from small_net import command, optimize

pytestmark = pytest.mark.usefixtures("clean")

# ---- the whole path ---------------------------------------------------------------------------------------------


def test_optimize_returns_the_same_model_serves_a_pool_and_keeps_the_outputs(net):
    model, inputs = net
    with torch.no_grad():
        expected = model(*inputs)
    assert optimize(net) is model
    data = kernelforge.report(model).to_dict()
    pool = next(r for r in data["rows"] if r["op"] == "aten::max_pool2d_with_indices")
    assert pool["verdicts"].get("ok", 0) >= 1
    assert data["outputs"]["status"] == "ok" if data["pack"] else True
    assert {r["op"] for r in data["rows"]} >= {"aten::mkldnn_convolution", "aten::max_pool2d_with_indices"}
    conv = next(r for r in data["rows"] if r["op"] == "aten::mkldnn_convolution")
    assert (conv["served"], conv["ratio"], conv["why"]) == (False, 1.0, "no template serves it")
    with torch.no_grad():
        assert torch.allclose(model(*inputs), expected, rtol=1e-5, atol=1e-6)
    if pool["served"]:
        kernelforge.stats(reset=True)
        with torch.no_grad():
            model(*inputs)
        assert kernelforge.stats()["ops"]["aten::max_pool2d_with_indices"]["hits"] == 1


def test_a_second_call_answers_from_the_study_without_a_search(net, monkeypatch):
    optimize(net)
    first = kernelforge.report().to_dict()

    def no_search(*args, **kwargs):
        raise AssertionError("it searched again")

    monkeypatch.setattr("kernelforge._search.drive", no_search)
    kernelforge.restore()
    begin = time.monotonic()
    optimize(net)
    again = kernelforge.report().to_dict()
    assert again["reused"]
    assert again["study"] == first["study"]
    assert again["rows"] == first["rows"]
    assert time.monotonic() - begin < 60
    served = [p["id"] for p in _pack.read(first["pack"])["plans"]] if first["pack"] else []
    assert [i for ids in _pack.applied().values() for i in ids] == served


def test_more_candidates_resume_the_study_and_judge_none_twice(net):
    optimize(net, candidates=2)
    study = kernelforge.report().to_dict()["study"]
    before = _studies.load(study, None)
    optimize(net, candidates=4)
    after = _studies.load(study, None)
    for old, new in zip(before["runs"], after["runs"], strict=True):
        assert new["nodes"][: len(old["nodes"])] == old["nodes"] or [n["node"] for n in new["nodes"]][
            : len(old["nodes"])
        ] == [n["node"] for n in old["nodes"]]
        assert len(new["nodes"]) > len(old["nodes"])
        assert len({(n["family"], json.dumps(n["params"], sort_keys=True)) for n in new["nodes"]}) == len(
            new["nodes"]
        )


def test_review_serves_nothing_until_it_is_approved(net, surely_faster):
    optimize(net, review=True)
    data = kernelforge.report().to_dict()
    if not data["pack"]:
        pytest.fail(f"no winner to review: {data['rows']}")
    assert data["review"]
    assert data["model"]["ratio"] is None
    assert _pack.applied() == {}
    done = command("approve", data["study"], "--json")
    assert done.returncode == 0, done.stderr
    approved = json.loads(done.stdout)["approved"]
    assert approved
    assert kernelforge.apply(data["pack"]) == approved


def test_the_report_tells_where_its_seconds_went(net, surely_faster):
    optimize(net)
    seconds = kernelforge.report().to_dict()["seconds"]
    parts = sum(s for what, s in seconds.items() if what != "total")
    assert seconds["measure"] > 0  # of the whole model: once left out, and it takes as long as the rest
    assert 0.5 * seconds["total"] < parts <= seconds["total"] + 0.1


def test_nothing_to_search_is_a_result_not_an_error(net):
    optimize(net, ops="aten::cumsum")
    data = kernelforge.report().to_dict()
    assert data["pack"] is None
    assert not any(r["served"] for r in data["rows"])
    assert "no operator was worth a search" in str(kernelforge.report())


# ---- the command line -------------------------------------------------------------------------------------------


def test_the_commands_from_optimize_to_report_show_and_verify(net_file, tmp_path):
    argv = [
        "optimize",
        f"{net_file}:make",
        "--batch",
        "2",
        "--candidates",
        "4",
        "--ops",
        "max_pool2d*",
        "--min-share",
        "0",
        "--out",
        str(tmp_path / "pack"),
    ]
    done = command(*argv, "--json", "--html", str(tmp_path / "r.html"))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert command("report", "--json").stdout == command("report", data["study"], "--json").stdout
    runs = json.loads(command("show", data["study"], "--json").stdout)["runs"]
    assert len(runs) == 1
    tree = command("show", data["study"], "max_pool2d")
    assert "eager (cost 1)" in tree.stdout
    source = command("show", data["study"], "max_pool2d", "1", "--source")
    assert "KF_ENTRY" in source.stdout
    if data["pack"]:
        verified = command("verify", str(tmp_path / "pack"), "--json", "--blocks", "10")
        found = json.loads(verified.stdout)
        assert all(p["status"] in ("ok", "slower") for p in found["plans"]), found
        explained = json.loads(
            command(
                "explain", f"{net_file}:make", "--batch", "2", "--pack", str(tmp_path / "pack"), "--json"
            ).stdout
        )
        pools = [c for c in explained["calls"] if c["overload"] == "aten::max_pool2d_with_indices"]
        assert [p["plan"] is not None for p in pools] == [True]


def test_no_gain_is_3_only_when_asked(net_file):
    argv = ["optimize", f"{net_file}:make", "--ops", "cumsum"]
    assert command(*argv).returncode == 0
    assert command(*argv, "--fail-if-no-gain").returncode == 3


# ---- bad input --------------------------------------------------------------------------------------------------


def test_a_model_that_raises_says_so_and_leaves_nothing_switched_on():
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError("shapes do not fit")

    with pytest.raises(ModelFault, match="run `Broken`: it raised RuntimeError: shapes do not fit"):
        kernelforge.optimize(Broken(), torch.ones(2))
    assert torch.relu(torch.tensor([-1.0])).item() == 0.0
    from kernelforge import _ext

    assert _ext.load().enabled()


def test_a_command_on_a_model_that_raises_is_2(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(
        "import torch\nclass B(torch.nn.Module):\n    def forward(self, x): return x @ x\ndef make(): return B(), (torch.ones(2, 3),)\n"
    )
    for name in ("profile", "optimize", "explain"):
        done = command(name, f"{path}:make")
        assert done.returncode == 2, (name, done.stderr)
        assert "run `B`: it raised RuntimeError" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("inputs", [None, (), {}])
def test_no_inputs(net, inputs):
    for call in (kernelforge.optimize, kernelforge.profile, kernelforge.explain):
        with pytest.raises(UsageFault, match="no inputs were given"):
            call(net[0], inputs)


def test_inputs_on_several_devices(net):
    with pytest.raises(ModelFault, match="several devices"):
        kernelforge.optimize(net[0], (torch.ones(2, device="meta"), torch.ones(2)))


@pytest.mark.parametrize(
    "options",
    [
        {"min_share": 2},
        {"candidates": 0},
        {"max_seconds": -1.0},
        {"study": "a/b"},
        {"max_seconds": "60"},
        {"candidates": 2.5},
        {"seed": None},
        {"min_share": "1 %"},
    ],
)
def test_arguments_that_cannot_be(net, options):
    with pytest.raises(UsageFault, match="optimize"):
        optimize(net, **options)


def test_no_compiler(net, monkeypatch):
    monkeypatch.setenv("KERNELFORGE_CXX", "no-such-compiler")
    with pytest.raises(EnvironmentFault, match="`no-such-compiler` of KERNELFORGE_CXX is not there") as e:
        optimize(net)
    assert e.value.exit_code == 5
    assert "install g++" in e.value.hint


def test_a_home_that_cannot_be_written(net, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELFORGE_HOME", str(tmp_path / "file" / "below"))
    with pytest.raises(EnvironmentFault, match=r"write the (packs|store) in") as e:
        optimize(net)
    assert "KERNELFORGE_HOME" in e.value.hint


def test_a_full_disk_is_one_error_and_what_was_written_stays_readable(net_file, home):
    """A limit on the size of files stands in for a full disk: the store's first pages fit, its log does not."""

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (96 << 10, 96 << 10))

    done = command(
        "optimize",
        f"{net_file}:make",
        "--candidates",
        "4",
        "--ops",
        "max_pool2d*",
        "--min-share",
        "0",
        preexec_fn=little,
    )
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error:") == 1
    assert "hint:" in done.stderr
    after = command("show", "--json")
    assert after.returncode == 0, after.stderr
    resumed = command(
        "optimize",
        f"{net_file}:make",
        "--candidates",
        "2",
        "--ops",
        "max_pool2d*",
        "--min-share",
        "0",
        "--processes",
        "0",
    )
    assert resumed.returncode == 0, resumed.stderr


def test_the_switch_in_the_environment_searches_nothing(net, monkeypatch):
    monkeypatch.setenv("KERNELFORGE_DISABLE", "1")
    assert optimize(net) is net[0]


# ---- interrupts, kills, two at once -----------------------------------------------------------------------------


@pytest.mark.parametrize("study", [None, "mine"])
def test_a_share_that_grew_since_is_no_reason_not_to_resume(net, monkeypatch, study):
    from kernelforge import _job

    real, shares = _job.profile, iter((0.0, 0.5))

    def profile(*args, **options):
        found, share = real(*args, **options), next(shares)
        for card in found.cards:
            if card["overload"] == "aten::sigmoid":
                card["share"] = share
        return found

    monkeypatch.setattr(_job, "profile", profile)
    asked = {"study": study, "ops": ["max_pool2d*", "sigmoid"], "min_share": 0.001}
    optimize(net, candidates=1, **asked)
    name = kernelforge.report().to_dict()["study"]
    optimize(net, candidates=2, **asked)  # once refused: it was said to ask for an operator more
    row = next(r for r in kernelforge.report().to_dict()["rows"] if r["op"] == "aten::sigmoid")
    assert row["why"] == "below 0.1 % of the forward when the study began"
    runs = _studies.load(name, None)["runs"]
    assert {r["overload"] for r in runs} == {"aten::max_pool2d_with_indices"}
    assert len(runs[0]["nodes"]) > 2


@pytest.mark.parametrize(("fresh", "words"), [(False, "call resumes"), (True, "call without fresh=True")])
def test_an_interrupted_search_says_which_call_resumes_it(net, monkeypatch, fresh, words):
    def ctrl_c(search):
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelforge._search.Search.step", ctrl_c)
    with pytest.raises(KeyboardInterrupt, match=f"they are saved\nhint: the same {words}"):
        optimize(net, fresh=fresh)


def test_a_study_that_began_without_an_operator_is_not_widened_in_silence(net):
    optimize(net, study="mine", candidates=1)
    with pytest.raises(UsageFault, match="it began without aten::sigmoid"):
        optimize(net, study="mine", candidates=1, ops=["max_pool2d*", "sigmoid"])
    optimize(net, study="mine", candidates=1, ops=["max_pool2d*", "sigmoid"], fresh=True)
    assert {r["overload"] for r in _studies.load("mine", None)["runs"]} == {
        "aten::max_pool2d_with_indices",
        "aten::sigmoid",
    }
