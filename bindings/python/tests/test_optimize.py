"""`optimize` from end to end on a small network: search, pack, dispatch, report; again, resumed, interrupted, refused."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kernelforge
from kernelforge import _core, _pack, _studies
from kernelforge.errors import EnvironmentFault, KernelForgeError, ModelFault, UsageFault

torch = pytest.importorskip("torch")
PACKAGE = Path(kernelforge.__file__).parent

MODEL = '''
import torch

class Net(torch.nn.Module):
    """One convolution, and two operators whose eager CPU kernels leave room."""
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.pool = torch.nn.MaxPool2d(3, 2, ceil_mode=True)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return torch.sigmoid(x.transpose(1, 2).contiguous()).mean(dim=(2, 3))

def make(batch=2):
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(batch, 3, 96, 96),)
'''


@pytest.fixture
def net_file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return path


@pytest.fixture
def net():
    scope = {"__name__": "net"}
    exec(MODEL, scope)
    return scope["make"]()


@pytest.fixture(autouse=True)
def clean():
    """One thread: a pool of threads waits milliseconds at every barrier of a busy machine, and no test here is about threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    kernelforge.restore()


def _command(*argv, **options):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "kernelforge", *argv],
        capture_output=True,
        text=True,
        timeout=540,
        env=env,
        **options,
    )


def _optimize(net, **options):
    model, inputs = net
    with torch.no_grad():
        return kernelforge.optimize(
            model, inputs, **{"candidates": 4, "ops": "max_pool2d*", "min_share": 0.0, **options}
        )


# ---- the whole path ---------------------------------------------------------------------------------------------


def test_optimize_returns_the_same_model_serves_a_pool_and_keeps_the_outputs(net):
    model, inputs = net
    with torch.no_grad():
        expected = model(*inputs)
    assert _optimize(net) is model
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
    _optimize(net)
    first = kernelforge.report().to_dict()

    def no_search(*args, **kwargs):
        raise AssertionError("it searched again")

    monkeypatch.setattr("kernelforge._search.drive", no_search)
    kernelforge.restore()
    begin = time.monotonic()
    _optimize(net)
    again = kernelforge.report().to_dict()
    assert again["reused"]
    assert again["study"] == first["study"]
    assert again["rows"] == first["rows"]
    assert time.monotonic() - begin < 60
    served = [p["id"] for p in _pack.read(first["pack"])["plans"]] if first["pack"] else []
    assert [i for ids in _pack.applied().values() for i in ids] == served


def test_more_candidates_resume_the_study_and_judge_none_twice(net):
    _optimize(net, candidates=2)
    study = kernelforge.report().to_dict()["study"]
    before = _studies.load(study, None)
    _optimize(net, candidates=4)
    after = _studies.load(study, None)
    for old, new in zip(before["runs"], after["runs"], strict=True):
        assert new["nodes"][: len(old["nodes"])] == old["nodes"] or [n["node"] for n in new["nodes"]][
            : len(old["nodes"])
        ] == [n["node"] for n in old["nodes"]]
        assert len(new["nodes"]) > len(old["nodes"])
        assert len({(n["family"], json.dumps(n["params"], sort_keys=True)) for n in new["nodes"]}) == len(
            new["nodes"]
        )


def test_review_serves_nothing_until_it_is_approved(net):
    _optimize(net, review=True)
    data = kernelforge.report().to_dict()
    if not data["pack"]:
        pytest.fail(f"no winner to review: {data['rows']}")
    assert data["review"]
    assert data["model"]["ratio"] is None
    assert _pack.applied() == {}
    done = _command("approve", data["study"], "--json")
    assert done.returncode == 0, done.stderr
    approved = json.loads(done.stdout)["approved"]
    assert approved
    assert kernelforge.apply(data["pack"]) == approved


def test_nothing_to_search_is_a_result_not_an_error(net):
    _optimize(net, ops="aten::no_such")
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
    done = _command(*argv, "--json", "--html", str(tmp_path / "r.html"))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert _command("report", "--json").stdout == _command("report", data["study"], "--json").stdout
    runs = json.loads(_command("show", data["study"], "--json").stdout)["runs"]
    assert len(runs) == 1
    tree = _command("show", data["study"], "max_pool2d")
    assert "eager (cost 1)" in tree.stdout
    source = _command("show", data["study"], "max_pool2d", "1", "--source")
    assert "KF_ENTRY" in source.stdout
    if data["pack"]:
        verified = _command("verify", str(tmp_path / "pack"), "--json", "--blocks", "10")
        found = json.loads(verified.stdout)
        assert all(p["status"] in ("ok", "slower") for p in found["plans"]), found
        explained = json.loads(
            _command(
                "explain", f"{net_file}:make", "--batch", "2", "--pack", str(tmp_path / "pack"), "--json"
            ).stdout
        )
        pools = [c for c in explained["calls"] if c["overload"] == "aten::max_pool2d_with_indices"]
        assert [p["plan"] is not None for p in pools] == [True]


def test_no_gain_is_3_only_when_asked(net_file):
    argv = ["optimize", f"{net_file}:make", "--ops", "no_such_op"]
    assert _command(*argv).returncode == 0
    assert _command(*argv, "--fail-if-no-gain").returncode == 3


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
    for command in ("profile", "optimize", "explain"):
        done = _command(command, f"{path}:make")
        assert done.returncode == 2, (command, done.stderr)
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
    "options", [{"min_share": 2}, {"candidates": 0}, {"max_seconds": -1.0}, {"study": "a/b"}]
)
def test_arguments_that_cannot_be(net, options):
    with pytest.raises(UsageFault, match="optimize"):
        _optimize(net, **options)


def test_no_compiler(net, monkeypatch):
    monkeypatch.setenv("KERNELFORGE_CXX", "no-such-compiler")
    with pytest.raises(EnvironmentFault, match="`no-such-compiler` of KERNELFORGE_CXX is not there") as e:
        _optimize(net)
    assert e.value.exit_code == 5
    assert "install g++" in e.value.hint


def test_a_home_that_cannot_be_written(net, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELFORGE_HOME", str(tmp_path / "file" / "below"))
    with pytest.raises(EnvironmentFault, match="write the store in") as e:
        _optimize(net)
    assert "KERNELFORGE_HOME" in e.value.hint


def test_a_full_disk_is_one_error_and_what_was_written_stays_readable(net_file, home):
    """A limit on the size of files stands in for a full disk: the store's first pages fit, its log does not."""

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (96 << 10, 96 << 10))

    done = _command(
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
    after = _command("show", "--json")
    assert after.returncode == 0, after.stderr
    resumed = _command(
        "optimize", f"{net_file}:make", "--candidates", "2", "--ops", "max_pool2d*", "--min-share", "0"
    )
    assert resumed.returncode == 0, resumed.stderr


def test_the_switch_in_the_environment_searches_nothing(net, monkeypatch):
    monkeypatch.setenv("KERNELFORGE_DISABLE", "1")
    assert _optimize(net) is net[0]


# ---- interrupts, kills, two at once -----------------------------------------------------------------------------

LONG = ["--candidates", "60", "--ops", "max_pool2d*", "--min-share", "0", "--study", "long"]


def _start(net_file, *more):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "kernelforge", "optimize", f"{net_file}:make", *LONG, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def _nodes():
    try:
        return sum(len(r["nodes"]) - 1 for r in _studies.load("long", None)["runs"])
    except KernelForgeError:
        return 0


def _wait_for(count, process):
    deadline = time.monotonic() + 300
    while _nodes() < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no candidate was judged in five minutes"
        process.poll() or _core.call("version")


def test_ctrl_c_saves_says_how_to_resume_and_is_130(net_file):
    process = _start(net_file)
    _wait_for(2, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted after" in err
    assert "hint: the same call resumes it" in err
    saved = _nodes()
    assert saved >= 2
    resumed = _command("optimize", f"{net_file}:make", *LONG, "--candidates", str(saved + 1))
    assert resumed.returncode == 0, resumed.stderr
    assert _nodes() >= saved


def test_ctrl_c_twice_stops_at_once_and_keeps_what_was_judged(net_file):
    process = _start(net_file)
    _wait_for(2, process)
    saved = _nodes()
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)  # the first one has reached the loop
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert _nodes() >= saved
    assert _studies.find("long", None)["state"] == "stopped"


def test_a_killed_search_loses_at_most_the_candidate_in_flight(net_file):
    process = _start(net_file)
    _wait_for(2, process)
    process.kill()
    process.communicate(timeout=60)
    saved = _nodes()
    assert saved >= 2
    assert _studies.find("long", None)["state"] in ("stopped", "running")
    resumed = _command("optimize", f"{net_file}:make", *LONG, "--candidates", str(saved + 1))
    assert resumed.returncode == 0, resumed.stderr
    assert _nodes() >= saved


def test_a_second_search_on_one_study_is_7_readers_and_other_studies_are_free(net_file):
    process = _start(net_file)
    try:
        _wait_for(1, process)
        second = _command("optimize", f"{net_file}:make", *LONG)
        assert second.returncode == 7, second.stderr
        assert second.stderr.count("error:") == 1
        assert "hint:" in second.stderr
        assert _command("show", "long").returncode == 0
        other = _command(
            "optimize",
            f"{net_file}:make",
            "--candidates",
            "1",
            "--ops",
            "max_pool2d*",
            "--min-share",
            "0",
            "--study",
            "other",
        )
        assert other.returncode == 0, other.stderr
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130


def test_a_study_that_began_without_an_operator_is_not_widened_in_silence(net):
    _optimize(net, study="mine", candidates=1)
    with pytest.raises(UsageFault, match="it began without aten::sigmoid"):
        _optimize(net, study="mine", candidates=1, ops=["max_pool2d*", "sigmoid"])
    _optimize(net, study="mine", candidates=1, ops=["max_pool2d*", "sigmoid"], fresh=True)
    assert {r["overload"] for r in _studies.load("mine", None)["runs"]} == {
        "aten::max_pool2d_with_indices",
        "aten::sigmoid",
    }
