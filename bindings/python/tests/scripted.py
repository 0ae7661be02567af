"""A server of OpenAI's chat completions that follows a script, for tests of the whole loop: go/propose/llm/scripted, as a process.

A step says which requests it is for (`when`: words of the last message), how often (`times`), and what it does; go/propose/llm/scripted/scripted.go
has the fields, act.go the ways to misbehave. Replies written for this project lie in go/propose/llm/scripted/replies.

    with Server([{"when": "aten::mean", "reply": "mean"}]) as server:
        ... base_url=server.url ...
        assert len(server.log()) == 1
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import ROOT, _cache

REPLIES = ROOT / "go/propose/llm/scripted/replies"


@functools.cache
def _program() -> Path:
    target = _cache() / "scripted"
    subprocess.run(
        ["go", "build", "-o", str(target), "./go/propose/llm/scripted/cmd/scripted"], cwd=ROOT, check=True
    )
    return target


class Server:
    """The server, from entering to leaving. It outlives clients that are killed: its log tells what each was sent."""

    def __init__(self, steps: Sequence[dict[str, Any]]) -> None:
        self._steps = list(steps)
        self.url = ""

    def __enter__(self) -> Server:
        self._folder = tempfile.TemporaryDirectory()
        script, self._log = Path(self._folder.name) / "script.json", Path(self._folder.name) / "log.jsonl"
        script.write_text(json.dumps(self._steps))
        command = [str(_program()), "-script", str(script), "-log", str(self._log)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), "the scripted server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends with its input
        self._folder.cleanup()

    def log(self) -> list[dict[str, Any]]:
        """Return the requests that were served, in the order of their ends: {key, model, step, whole (its reply was sent to the end), tokens_in, tokens_out, request, ...}."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]


def candidate(name: str) -> dict[str, Any]:
    """Return the candidate of a reply in `replies`: its one block of code, and the spec of its one block of JSON."""
    found = dict(re.findall(r"^```(cpp|json)\n(.*?)^```$", (REPLIES / f"{name}.md").read_text(), re.M | re.S))
    head = json.loads(found["json"])
    return {
        "family": name,
        "params": {},
        "source": found["cpp"],
        "spec": head["spec"],
        "change": head["change"],
    }
