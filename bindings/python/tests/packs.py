"""Writes real packs of one hand-written relu kernel, so that applying and verifying can be tried without a search.

It owns the way source -> compiler -> pack folder, with the product's own flags and the pins of this process.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import torch

from kernelforge import _ext, _pins, _settings
from kernelforge._seal import seal
from kernels import PRELUDE, _flags

SIZES = (64, 1000)
RIGHT = "y[i] = x[i] > 0.0f || x[i] != x[i] ? x[i] : 0.0f;"
WRONG = "y[i] = x[i] > 1e-3f || x[i] != x[i] ? x[i] : 0.0f;"
CRASH = "y[i] = *(volatile float*)(x[i] > 0 ? 8 : 16);"
HANG = "for (volatile int64_t k = 0; k >= 0; k = 1) {} y[i] = x[i];"
SLOW = (
    "float v = x[i] > 0.0f || x[i] != x[i] ? x[i] : 0.0f; for (volatile int k = 0; k < 60; ++k) {} y[i] = v;"
)


def source(body: str) -> str:
    return f"""KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {{
  const float* x = static_cast<const float*>(args[0].p);
  float* y = static_cast<float*>(args[1].p);
  for (int64_t i = begin; i < end; ++i) {{ {body} }}
}}
"""


def compiled(text: str, folder: Path) -> bytes:
    """Return the shared object of a source, built as the product builds it, file names included: they are in the object."""
    compiler = _settings.compiler()
    assert compiler is not None
    source, made = folder / "candidate.cc", folder / "candidate.so"
    source.write_text(text)
    command = [compiler, *_flags(), f"-I{PRELUDE.parent}", "-o", made.name, source.name]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    image = made.read_bytes()
    source.unlink()
    made.unlink()
    return image


def tensor(name: str | None = None, alias: int | None = None) -> dict[str, Any]:
    head = {"name": name, "kind": "tensor"} if name else {}
    tail = {} if alias is None else {"alias": alias}
    return {**head, "dtype": "float32", "sizes": list(SIZES), "strides": [SIZES[1], 1], **tail}


def write(
    folder: Path,
    body: str = RIGHT,
    *,
    state: str = "approved",
    exact: bool = True,
    plan: str = "p-relu",
    **pins: Any,
) -> Path:
    """Write a pack with one plan for relu on float32 [64, 1000]; pins are this process's unless given."""
    folder.mkdir(parents=True, exist_ok=True)
    text = source(body)
    image = compiled(text, folder)
    hashes = {}
    for kind, data, ending in (("code", image, "so"), ("source", text.encode(), "cc")):
        digest = hashlib.sha256(data).hexdigest()
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{digest}.{ending}").write_bytes(data)
        hashes[kind] = {"sha256": digest, "bytes": len(data)}
    evidence = {
        "ratio": 1.5,
        "low": 1.4,
        "high": 1.6,
        "samples": 40,
        "eager_us": 9.0,
        "kernelforge_us": 6.0,
        "rule": 1,
        "tier": 0,
    }
    document = {
        "schema": 1,
        "made": "2026-12-01T10:00:00Z",
        "target": "host",
        "pins": {**_pins.pins(_ext.load().abi()), **pins},
        "plans": [
            {
                "id": plan,
                "card": "c-00000001",
                "variant": "v0",
                "node": 1,
                "state": state,
                "call": {"overload": "aten::relu", "args": [tensor("self")], "outputs": [tensor(alias=-1)]},
                "spec": {
                    "schema": 1,
                    "constants": {},
                    "workspaces": [],
                    "kernels": [
                        {
                            "entry": "kf_main",
                            "work": "out0_numel",
                            "grain": "16384",
                            "args": [{"slot": "self"}, {"slot": "out0"}],
                        }
                    ],
                },
                "threads": torch.get_num_threads(),
                "align": [4, 4],
                "deterministic": True,
                "exact": exact,
                **hashes,
                "evidence": evidence,
            }
        ],
    }
    (folder / "pack.json").write_text(seal(document))
    return folder
