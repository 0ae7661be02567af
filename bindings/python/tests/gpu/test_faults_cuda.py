"""Live searches on a device that are hurt: all faults that candidates bring and some of the others, by bench/faults.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_net import PACKAGE

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[4]

OTHERS = [
    "worker_killed",
    "worker_stopped",
    "compiler_killed",
    "parent_killed",
    "driver_missing",
    "memory_of_the_user",
]
OTHERS += ["memory_of_the_worker", "one_study_twice", "two_studies", "sigint_01", "sigint_02", "sigterm_01"]


def test_faults_on_a_device_are_contained():
    sys.path.insert(0, str(ROOT / "bench"))
    import injected

    names = [fault.name for fault in injected.CUDA] + OTHERS
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [
        sys.executable,
        str(ROOT / "bench/faults.py"),
        "--target",
        "cuda",
        "--jobs",
        "4",
        "--json",
        "--only",
        *names,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env=env)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    failed = [f"{r['name']}: {r['saw']}" for r in found["rows"] if not r["contained"]]
    assert not failed, "\n".join(failed)
    assert found["faults"] == len(names)
