"""People, agents and functions as authors, on a linear layer that no template serves: ask, submit, the MCP server, `Study` and `authors=`."""

import contextlib
import functools
import json
import logging
import os
import re
import signal
import subprocess
import sys

import pytest
import torch

import kernelforge
from kernelforge import _study, cli
from kernelforge.errors import UsageFault
from small_net import PACKAGE

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.sigmoid(self.first(x))

def make():
    print("a model may print")  # where the protocol has stdout this goes elsewhere
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(16384, 4),)
"""

# The layer is so narrow that eager's matrix product spends its time on overhead: ten times is easy, on a busy machine too.
GOOD = """
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* bias = static_cast<const float*>(args[0].p);
  const float* x = static_cast<const float*>(args[1].p);
  const float* w = static_cast<const float*>(args[2].p);  // mat2[k, j] lies at j * K + k
  float* out = static_cast<float*>(args[3].p);
  for (int64_t i = begin; i < end; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum = kf_fma(x[i * K + k], w[j * K + k], sum);
      out[i * N + j] = sum + bias[j];
    }
}
"""
WRONG = GOOD.replace("sum + bias[j]", "sum + bias[j] * 1.01f")
SPEC = {
    "schema": 1,
    "constants": {"N": "2", "K": "4"},
    "workspaces": [],
    "kernels": [
        {
            "entry": "kf_main",
            "work": "mat1_size0",
            "grain": "4096",
            "args": [{"slot": "self"}, {"slot": "mat1"}, {"slot": "mat2"}, {"slot": "out0"}],
        }
    ],
}


def _net():
    scope = {"__name__": "linear"}
    exec(MODEL, scope)
    return scope["make"]()


@pytest.fixture(scope="module", autouse=True)
def threads():
    """The commands set torch's threads, as a program's first line does; here they run in the process of the tests."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study that a command began, without a winner: (folder of the model's file, options that name the store)."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "linear.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELFORGE_HOME", str(folder / "home"))
        patch.chdir(folder)
        store = str(folder / "store.db")
        options = ["--store", store, "--study", "lin", "--threads", "1", "--processes", "0"]
        assert cli.main(["optimize", "linear.py:make", *options, "--ops", "addmm", "--min-share", "0"]) == 0
    return folder, store


@pytest.fixture
def here(study, monkeypatch, clean):
    """In the folder of the model's file; gives the options that name the store."""
    folder, store = study
    monkeypatch.chdir(folder)
    return ["--store", store]


def _files(folder, source, spec=SPEC):
    (folder / "kernel.cc").write_text(source)
    (folder / "spec.json").write_text(spec if isinstance(spec, str) else json.dumps(spec))
    return str(folder / "kernel.cc"), str(folder / "spec.json")


def _json(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_ask_tells_what_an_author_must_know_of_an_operator_without_a_template(here, capsys):
    assert cli.main(["ask", "lin", *here, "--json"]) == 0
    cards = _json(capsys)["cards"]
    assert [c["overload"] for c in cards] == ["aten::addmm"]
    assert cli.main(["ask", "lin", "addmm", *here, "--json"]) == 0
    brief = _json(capsys)
    assert brief["card"]["id"] == cards[0]["card"]
    assert brief["launch"]["slots"] == ["self", "mat1", "mat2", "out0"]
    assert {"name": "mat1_size0", "value": 16384} in brief["launch"]["names"]
    assert (brief["parent"]["status"], brief["parent"]["cost"]) == ("eager", 1)
    assert cli.main(["ask", "lin", "addmm", *here]) == 0
    text = capsys.readouterr().out
    for words in ("beta * self", "mat2: float32 [4 2] strides [1 4]", "What the judge checks", "isa = "):
        assert words in text


def test_a_wrong_kernel_gets_a_verdict_with_index_value_expected_and_allowed(here, tmp_path, capsys):
    assert cli.main(["submit", "lin", "addmm", *_files(tmp_path, WRONG), *here, "--json"]) == 4
    verdict = _json(capsys)["verdict"]
    assert (verdict["status"], verdict["gate"]) == ("wrong_value", "values")
    assert re.search(r"at \[\d+, \d\]: \S+ \(expected \S+ \+- \S+, eager \S+\)", verdict["detail"])
    broken = GOOD.replace("float sum = 0;", "float sum = 0")
    assert cli.main(["submit", "lin", "addmm", *_files(tmp_path, broken), *here]) == 4
    assert "compile_error" in capsys.readouterr().out


def test_a_faster_kernel_of_a_linear_layer_is_confirmed_and_served(here, tmp_path, capsys, surely_faster):
    files = _files(tmp_path, GOOD + "// by hand\n")
    assert cli.main(["submit", "lin", "addmm", *files, *here, "--idea", "plain loops", "--json"]) == 0
    answer = _json(capsys)
    assert answer["served"] == ["v0"], answer
    assert answer["confirmed"][0]["low"] > 1
    assert cli.main(["report", "lin", *here, "--json"]) == 0
    row = next(r for r in _json(capsys)["rows"] if r["op"] == "aten::addmm")
    assert row["served"]
    model, inputs = _net()
    with kernelforge.disabled(), torch.no_grad():
        expected = model(*inputs)
    before = _hits()
    with torch.no_grad():
        found = model(*inputs)
    assert _hits() > before
    torch.testing.assert_close(found, expected)
    # The same kernel is not judged again, and the tree says who brought it.
    assert cli.main(["submit", "lin", "addmm", *files, *here, "--json"]) == 0
    assert _json(capsys)["node"] == answer["node"]
    assert cli.main(["show", "lin", "addmm", str(answer["node"]), *here, "--json"]) == 0
    node = _json(capsys)["candidate"]
    assert (node["author"], node["change"]) == ("person", "plain loops")


def _hits():
    return sum(s["hits"] for s in kernelforge.stats()["sites"])


@pytest.mark.parametrize(
    ("argv", "spec", "words"),
    [
        (["lin", "softmax"], SPEC, "no card fits"),
        (["nowhere", "addmm"], SPEC, "nowhere"),
        (["lin", "addmm", "--parent", "99"], SPEC, "no such node"),
        (["lin", "addmm"], "{", "read the launch spec"),
        (["lin", "addmm"], "[]", "expected an object"),
        (["lin", "addmm"], {"schema": 1}, "the field is missing"),
        (["lin", "addmm"], {**SPEC, "surprise": 1}, "surprise"),
    ],
)
def test_wrong_usage_of_submit_is_2_and_says_what_is_wrong(here, tmp_path, capsys, argv, spec, words):
    source, file = _files(tmp_path, GOOD, spec)
    assert cli.main(["submit", *argv[:2], source, file, *argv[2:], *here]) == 2
    assert words in capsys.readouterr().err


def test_a_study_whose_model_is_elsewhere_says_how_to_name_it(here, tmp_path, monkeypatch, capsys):
    source, spec = _files(tmp_path, GOOD + "// elsewhere\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["submit", "lin", "addmm", source, spec, *here]) == 2
    assert "name it with --model" in capsys.readouterr().err


class _Client:
    """The other end of `kernelforge mcp`, line by line."""

    def __init__(self, process):
        self.process, self.last = process, 0
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        assert self.call("initialize", hello)["serverInfo"]["name"] == "kernelforge"
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def call(self, method, params):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        while True:  # every line is the protocol's, or reading it fails
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self.last:
                return message["result"]

    def tool(self, name, **arguments):
        return self.call("tools/call", {"name": name, "arguments": arguments})["structuredContent"]


@contextlib.contextmanager
def _serving(here, *options, **more):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
    # A test run in the background of a shell ignores SIGINT, and children inherit that.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelforge", "mcp", "lin", *here, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        preexec_fn=heed,
        **more,
    )
    with process:
        try:
            yield process
        except BaseException:  # leaving Popen waits for the process: a failed test must not hang
            process.kill()
            raise


def test_an_agent_drives_a_study_over_stdio_to_the_end(here):
    with _serving(here) as process:
        client = _Client(process)
        assert client.tool("list_cards")["cards"][0]["overload"] == "aten::addmm"
        assert client.tool("get_brief", card="addmm")["card"]["words"]
        wrong = client.tool(
            "submit_candidate", card="addmm", source=WRONG + "// stdio\n", spec=SPEC, wait_s=300
        )
        assert wrong["verdict"]["status"] == "wrong_value"
        assert "expected" not in wrong["verdict"]["detail"]  # it may leave the machine
        good = client.tool(
            "submit_candidate", card="addmm", source=GOOD + "// stdio\n", spec=SPEC, wait_s=300
        )
        assert good["verdict"]["status"] == "ok"
        assert re.fullmatch(r"v0 moves its bytes at \S+ GB/s, \S+ % of a copy's rate", good["measured"][0])
        assert wrong["measured"] == []
        assert client.tool("get_verdict", card="addmm", candidate=good["candidate"])["node"] == good["node"]
        process.stdin.close()  # the end of the input is the end of the service
        assert process.wait(timeout=300) == 0, process.stderr.read()
        assert "a model may print" in process.stderr.read()


def test_http_prints_its_token_once_and_ctrl_c_ends_it_with_0(here):
    with _serving(here, "--http", "127.0.0.1:0") as process:
        told = process.stderr.readline() + process.stderr.readline()
        assert re.search(r"at http://127\.0\.0\.1:\d+/mcp\ntoken: \S{40,}\n", told)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--http", "0.0.0.0:0"], "no address of this machine alone"),
        (["--token-env", "X"], "only HTTP has a token"),
        (["--http", "127.0.0.1:0", "--token-env", "KF_NO_SUCH"], "is not set"),
    ],
)
def test_wrong_usage_of_mcp_is_2(here, capsys, options, words):
    assert cli.main(["mcp", "lin", *here, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_program_asks_and_tells_and_an_exception_saves_what_was_judged(clean, tmp_path, capsys):
    model, inputs = _net()
    wishes = {"study": "mine", "ops": "addmm", "min_share": 0.0, "processes": 0, "name": "linear"}
    with torch.no_grad(), kernelforge.Study(model, inputs, **wishes) as study:
        brief = study.ask("addmm")
        assert brief["text"].startswith("# aten::addmm")
        answer = study.tell("addmm", WRONG, SPEC, idea="a slip")
        assert answer["verdict"]["status"] == "wrong_value"
        assert [s["why"] for s in study.ask("addmm")["siblings"]] == [answer["verdict"]["detail"]]
        with pytest.raises(UsageFault, match="the field is missing"):
            study.tell("addmm", GOOD, {"schema": 1})
    assert study.done
    assert study.report is None  # nothing was gained, so nothing was measured
    with (
        pytest.raises(ZeroDivisionError),
        torch.no_grad(),
        kernelforge.Study(model, inputs, **wishes) as again,
    ):
        again.tell("addmm", GOOD, SPEC)
        raise ZeroDivisionError
    assert not _study.running("mine", None)
    assert _study.cards("mine", None)[0]["nodes"] == 2
    # A program began it, so a command cannot make the model again.
    assert cli.main(["submit", "mine", "addmm", *_files(tmp_path, GOOD + "// more\n")]) == 2
    assert "kernelforge.Study(model, inputs" in capsys.readouterr().err


@pytest.mark.parametrize("tell", [False, True])
def test_what_inputs_hold_is_told_by_choice_alone_and_roughly(clean, tell):
    model = torch.nn.Linear(4, 2)
    x = torch.full((4096, 4), 0.123456)
    x[:1024] = 0
    wishes = {"study": f"told-{tell}", "ops": "addmm", "min_share": 0.0, "processes": 0, "name": "linear"}
    with torch.no_grad(), kernelforge.Study(model, x, **wishes, tell_inputs=tell) as study:
        brief = study.ask("addmm")
    values = {a["slot"]: a.get("values") for a in brief["card"]["variants"][0]["arguments"] if a.get("slot")}
    assert list(values) == ["self", "mat1", "mat2"]
    if tell:
        assert values["mat1"] == {
            "mean": 0.093,
            "deviation": 0.053,
            "least": 0,
            "largest": 0.12,
            "zeros": 0.25,
        }
        assert "mean 0.093, deviation 0.053, from 0 to 0.12, 25 % zeros" in brief["text"]
    else:
        assert set(values.values()) == {None} and "deviation" not in brief["text"]


def test_functions_propose_beside_each_other_and_one_that_raises_ends_alone(clean, surely_faster, caplog):
    model, inputs = _net()
    asked = []

    def mine(brief):
        asked.append(brief["parent"]["node"])
        tried = len(brief["siblings"])
        return (f"// {tried}\n{GOOD}", {**SPEC, "idea": f"idea {tried}"}) if tried < 2 else None

    def broken(brief):
        raise ZeroDivisionError("no idea at all")

    with torch.no_grad(), caplog.at_level(logging.ERROR, "kernelforge"):
        kernelforge.optimize(
            model,
            inputs,
            study="calls",
            ops="addmm",
            min_share=0.0,
            candidates=2,
            processes=0,
            authors=[broken, mine],
        )
    report = kernelforge.report(model).to_dict()
    row = next(r for r in report["rows"] if r["op"] == "aten::addmm")
    assert row["served"], row
    nodes = _study.cards("calls", None)[0]["nodes"]
    assert 1 <= nodes <= 2
    assert asked
    assert "author `call:broken` raised" in caplog.text
    assert "ZeroDivisionError: no idea at all" in caplog.text
    assert "def broken" in caplog.text or "in broken" in caplog.text  # the traceback
