"""Authors from end to end: a scripted model proposes beside the templates; its failures are steps, its spend is told, and a budget of nothing calls nobody."""

import json

import pytest
import torch

import kernelforge
from kernelforge import _authors, _studies
from kernelforge.errors import KernelForgeError, UsageFault
from scripted import Server
from small_net import command

pytestmark = pytest.mark.usefixtures("clean")

MODEL = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.mean(1)

def make():
    return Net().eval(), (torch.randn(256, 1000, generator=torch.Generator().manual_seed(0)),)
"""

PRICES = {
    "schema": 1,
    "date": "2026-11-30",
    "mean_reply_tokens": 600,
    "models": {"scripted": {"usd_per_mtok_in": 1.0, "usd_per_mtok_out": 10.0}},
}


@pytest.fixture
def mean_file(tmp_path):
    file = tmp_path / "mean.py"
    file.write_text(MODEL)
    return file


def _optimize(file, *more):
    options = ["--ops", "mean*", "--min-share", "0", "--processes", "0", "--study", "authored"]
    return command("optimize", f"{file}:make", *options, "--json", *more, searched=True)


def test_replies_become_candidates_and_bad_ones_visible_steps(mean_file, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))
    # The first reply holds nothing, the repair does not compile, the repair of that is right.
    steps = [
        {"times": 1, "text": "I cannot say."},
        {"times": 1, "reply": "mean_compile_error"},
        {"reply": "mean"},
    ]
    with Server(steps) as server:
        how = [
            "--author",
            "openai:scripted",
            "--base-url",
            server.url,
            "--max-cost",
            "1",
            "--calls-in-flight",
            "1",
        ]
        done = _optimize(mean_file, "--candidates", "2", *how, "--price-file", str(prices))
        assert done.returncode == 0, done.stderr
        log = server.log()
    told = json.loads(done.stdout)["authors"]
    assert told["calls"] == len(log) and 0 < told["usd"] < 1
    assert told["forecast"][0]["author"] == "openai:scripted" and told["forecast"][0]["usd"] > 0
    by = {s["author"]: s for s in told["sources"]}
    assert by["openai:scripted"]["repairs"] >= 2 and by["openai:scripted"]["mended"] >= 1, told
    assert by["template"]["judged"] >= 1
    (run,) = _studies.load("authored", None)["runs"]
    mine = next(n for n in run["nodes"] if n["author"] == "llm" and n["status"] == "ok")
    assert mine["repairs"] == 2 and mine["cost"] > 0
    node = _studies.node("authored", run["card"], mine["node"], None)
    first, second = node["attempts"]
    assert (first["verdict"]["status"], first["verdict"]["gate"]) == ("rejected", "reply") and first["reply"]
    assert second["verdict"]["status"] == "compile_error" and "KF_ENTRY" in second["candidate"]["source"]
    repair = next(r for r in log if "Mend your attempt" in json.dumps(r["request"]))
    assert "error" in json.dumps(repair["request"]) and str(tmp_path) not in json.dumps(repair["request"])
    shown = command("show", "authored", run["card"], str(mine["node"])).stdout
    assert "step 1, sent back to its author: rejected" in shown and "step 2" in shown

    # Again, and nobody is asked: the server is gone.
    again = command("report", "authored")
    assert "before repair" in again.stdout and "openai:scripted" in again.stdout, again.stdout
    replayed = command(
        *[
            "optimize",
            f"{mean_file}:make",
            "--ops",
            "mean*",
            "--min-share",
            "0",
            "--processes",
            "0",
            "--study",
            "again",
        ],
        *["--json", "--author", "replay:authored", "--candidates", "2"],
        searched=True,
    )
    assert replayed.returncode == 0, replayed.stderr
    (second_run,) = _studies.load("again", None)["runs"]
    assert [n["family"] for n in second_run["nodes"]] == [n["family"] for n in run["nodes"]]
    assert json.loads(replayed.stdout)["authors"]["calls"] == 0


def test_a_budget_of_nothing_calls_nobody(mean_file):
    with Server([{"reply": "mean"}]) as server:
        how = ["--author", "openai:scripted", "--base-url", server.url, "--max-cost", "0"]
        done = _optimize(mean_file, "--candidates", "2", *how)
        assert done.returncode == 0, done.stderr
        assert server.log() == []
    told = json.loads(done.stdout)["authors"]
    assert told["calls"] == 0 and "0 USD calls no author" in told["stopped"][0]["why"]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"authors": "gpt-5"}, "there is no such author"),
        ({"authors": ["openai:"]}, "there is no such author"),
        ({"authors": ["openai:a", "openai:a"]}, "named twice"),
        ({"authors": ["openai:a", "replay:b"]}, "a study that is run again has no other author"),
        ({"authors": "openai:a", "max_cost": -1}, "max_cost=-1"),
        ({"authors": "openai:a", "max_cost": float("nan")}, "max_cost=nan"),
        ({"authors": "openai:a", "max_tokens_out": -1}, "max_tokens_out=-1"),
        ({"authors": "openai:a", "calls_in_flight": 0}, "calls_in_flight=0"),
        ({"authors": "openai:a", "api_key_env": "sk-123"}, "api_key_env: this is not the name of a variable"),
        ({"base_url": "http://localhost:1"}, "no author is named"),
        ({"authors": [3]}, "it is no function"),
        ({"authors": "openai:a", "author_settings": {"colour": 3}}, "there is no `colour`"),
    ],
)
def test_settings_that_cannot_be_are_told_before_anything_is_done(settings, found):
    with pytest.raises(UsageFault, match=found) as fault:
        kernelforge.optimize(torch.nn.ReLU(), (torch.ones(2),), **settings)
    assert "sk-123" not in str(fault.value)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"authors": "openai:a", "base_url": "http://far.example/v1"}, "is http to"),
        ({"authors": "openai:a", "base_url": "https://far.example/v1"}, "holds no key"),
        ({"authors": "replay:never"}, "there is none of this name"),
        (
            {
                "authors": "openai:a",
                "base_url": "http://localhost:1/v1",
                "author_settings": {"temperature": 9},
            },
            "`temperature` is 9",
        ),
        (
            {"authors": "openai:a", "base_url": "http://localhost:1/v1", "price_file": "/no/prices.json"},
            "price",
        ),
    ],
)
def test_what_the_core_refuses_is_told_before_a_study_begins(settings, found, net, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model, inputs = net
    with pytest.raises(KernelForgeError, match=found), torch.no_grad():
        kernelforge.optimize(model, inputs, ops="max_pool2d*", min_share=0.0, **settings)
    assert _studies.studies(None) == []


def test_a_report_words_what_authors_brought():
    study = {
        "spend": {"calls": 3, "tokens_in": 9000, "tokens_out": 2000, "usd": 0.03},
        "forecast": [{"author": "openai:m", "calls": 4, "usd": 0.04, "priced": True, "text": "..."}],
        "stopped": [{"author": "openai:m", "state": "stopped", "why": "the budget is spent"}],
    }
    counts = dict.fromkeys(_authors._SUMS, 0)
    source = {
        **counts,
        "author": "openai:m",
        "judged": 4,
        "valid": 1,
        "mended": 2,
        "unfinished": 1,
        "gain": 1.5,
        "usd": 0.03,
    }
    template = {**counts, "author": "template", "judged": 6, "valid": 6, "gain": 2.0, "stopped": ""}
    runs = [{"overload": "aten::mean.dim", "sources": [template, {**source, "stopped": ""}]}]
    text = "\n".join(_authors.lines(_authors.spent(study, runs)))
    for line in (
        "authors: 0.0300 USD, 3 calls paid, 9,000 tokens in, 2,000 out",
        "forecast for openai:m: at most 4 calls without repairs, 0.0400 USD",
        "openai:m: 4 candidates brought the costs down 1.50x in all",
        "openai:m on mean.dim: 1 of 4 right before repair, 3 after, 1 unfinished (not disproved)",
        "openai:m stopped: the budget is spent",
    ):
        assert line in text, text
    alone = [{"overload": "aten::mean.dim", "sources": [template]}]
    assert _authors.spent({**study, "stopped": []}, alone) is None
