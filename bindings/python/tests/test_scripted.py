"""The scripted server as a process, and its replies: the good ones are right by the referee's rules, the bad ones fail as they say."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
import torch

import kernels
import scripted
from proving import Proof, Site, prove


def _t(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))) * 2


SITES = {
    "mean": Site(
        "aten::mean.dim",
        tuple((t, [1], False, None) for t in (_t(64, 1000), _t(5, 7), _t(3, 4096), _t(1, 1))),
    ),
    "softmax": Site("aten::_softmax", tuple((t, -1, False) for t in (_t(64, 1000), _t(5, 7), _t(33, 257)))),
    "cat": Site(
        "aten::cat", (([_t(64, 96), _t(64, 32, seed=1)], 1), ([_t(5, 1), _t(5, 7, seed=1)], 1)), families=1
    ),
}


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Proof(list(SITES.values()), given=[[scripted.candidate(name)] for name in SITES])


@pytest.mark.parametrize("name", list(SITES))
def test_a_good_reply_is_right(proof: Proof, name: str) -> None:
    prove(proof, list(SITES).index(name), SITES[name])


def test_a_wrong_reply_is_wrong() -> None:
    wrong = Proof([SITES["mean"]], given=[[scripted.candidate("mean_wrong_value")]])
    with pytest.raises(AssertionError, match=r"mean_wrong_value .*elements"):
        prove(wrong, 0, SITES["mean"])


def test_a_reply_that_does_not_compile_does_not() -> None:
    with pytest.raises(AssertionError, match="expected"):
        kernels.compile_all([scripted.candidate("mean_compile_error")])


def _post(url: str, content: str) -> dict:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    request = urllib.request.Request(
        f"{url}/chat/completions", body, {"Content-Type": "application/json", "Idempotency-Key": "k1"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_the_server_follows_its_script_and_keeps_a_log() -> None:
    steps = [
        {"when": "aten::mean", "times": 1, "reply": "mean"},
        {"when": "aten::mean", "status": 503, "body": "busy"},
        {"text": "hello"},
    ]
    with scripted.Server(steps) as server:
        first = _post(server.url, "`aten::mean.dim(self)`")
        assert (
            "KF_ENTRY" in first["choices"][0]["message"]["content"]
            and first["usage"]["completion_tokens"] > 100
        )
        with pytest.raises(urllib.error.HTTPError, match="503"):
            _post(server.url, "`aten::mean.dim(self)`")
        assert _post(server.url, "aten::cat")["choices"][0]["message"]["content"] == "hello"
        log = server.log()
    assert [(r["step"], r["whole"], r["key"]) for r in log] == [
        (0, True, "k1"),
        (1, False, "k1"),
        (2, True, "k1"),
    ]
    assert log[0]["tokens_in"] > 0 and log[0]["request"]["model"] == "m"
