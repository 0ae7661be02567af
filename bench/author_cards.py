"""The operators that an author's kernels in bench/authored are for, each at two sizes, and how the kernels are read.

It owns names, shapes and the order of attempts. A kernel is `bench/authored/TARGET/CARD/NAME.cu` (`.cc` on the host) with its launch spec in `NAME.json`,
as `kernelforge submit` takes them. Its first lines say what an author says: `// Idea:`, `// Improves on:` (its parent), `// Answers:` (it is tried only if
that one failed: what the verdict told is why it is as it is).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

AUTHORED = Path(__file__).resolve().parent / "authored"
ENDINGS = {"cuda": "cu", "host": "cc"}
_SAYS = re.compile(r"// (Idea|Improves on|Answers): (.*(?:\n// (?![A-Z][a-z ]+: ).*)*)")


@dataclass(frozen=True)
class Card:
    """One operator.

    tensors: (large) -> the tensors of a call, drawn on the CPU.
    arguments: what the overload is called with, of these tensors.
    """

    name: str
    overload: str
    words: str
    tensors: Callable[[bool], list[torch.Tensor]]
    arguments: Callable[..., list[Any]]

    def call(self, *tensors: torch.Tensor) -> Any:
        """Return what the operator makes of the tensors."""
        name, _, overload = self.overload.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        given = list(zip(operator._schema.arguments, self.arguments(*tensors), strict=True))
        named = {a.name: value for a, value in given if a.kwarg_only}
        return operator(*(value for a, value in given if not a.kwarg_only), **named)


@dataclass(frozen=True)
class Attempt:
    """One kernel of an author. parent, answers: names of others of the card, or ""."""

    name: str
    idea: str
    parent: str
    answers: str
    source: str
    spec: dict[str, Any]


def attempts(target: str, card: str) -> list[Attempt]:
    """Return the kernels for a card, in the order in which they were written."""
    found = []
    for file in sorted((AUTHORED / target / card).glob(f"*.{ENDINGS[target]}")):
        source = file.read_text()
        said = {k: v.replace("\n//", "").strip() for k, v in _SAYS.findall(source)}
        spec = json.loads(file.with_suffix(".json").read_text())
        found.append(
            Attempt(
                file.stem,
                said["Idea"],
                said.get("Improves on", ""),
                said.get("Answers", ""),
                source,
                spec,
            )
        )
    return found


def cards(target: str) -> dict[str, Card]:
    """Return name -> card of a target, `cuda` or `host`."""
    return {c.name: c for c in (_cuda() if target == "cuda" else _host())}


def _draw(*sizes: int, dtype: torch.dtype = torch.bfloat16, last: bool = False) -> torch.Tensor:
    chance = torch.Generator().manual_seed(7 * len(sizes) + sizes[-1])
    made = torch.randn(sizes, generator=chance).to(dtype)
    return made.to(memory_format=torch.channels_last) if last else made


def _affine(*sizes: int, channels: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    return [_draw(*sizes, dtype=dtype), _draw(channels, dtype=dtype) + 1, _draw(channels, dtype=dtype)]


def _cuda() -> Iterator[Card]:
    yield Card(
        "softmax",
        "aten::_softmax",
        "4096 rows of 8192, bfloat16",
        lambda large: [_draw(4096 if large else 5, 8192)],
        lambda x: [x, -1, False],
    )
    yield Card(
        "layer_norm",
        "aten::native_layer_norm",
        "8192 rows of 4096, bfloat16",
        lambda large: _affine(8192 if large else 5, 4096, channels=4096),
        lambda x, w, b: [x, [4096], w, b, 1e-5],
    )
    yield Card(
        "group_norm",
        "aten::native_group_norm",
        "512 channels of 128 x 128 in 32 groups, bfloat16",
        lambda large: _affine(1, *((512 if large else 32), 128, 128), channels=512 if large else 32),
        lambda x, w, b: [x, w, b, 1, len(w), 128 * 128, len(w) // 16, 1e-6],
    )
    yield Card(
        "max_pool",
        "aten::max_pool2d_with_indices",
        "windows of 3 x 3, stride 2, 32 x 64 x 112 x 112 channels_last, bfloat16",
        lambda large: [_draw(*((32, 64, 112, 112) if large else (2, 16, 15, 19)), last=True)],
        lambda x: [x, [3, 3], [2, 2], [1, 1], [1, 1], False],
    )
    yield Card(
        "sum_of_8",
        "aten::sum.dim_IntList",
        "4194304 rows of 8, bfloat16",
        lambda large: [_draw(1 << 22 if large else 1032, 8)],
        lambda x: [x, [-1], False, None],
    )
    yield Card(
        "mean_of_64",
        "aten::mean.dim",
        "212592 rows of 64, float32, as SD 3.5's norms of queries and keys take them",
        lambda large: [_draw(2, *((24, 4429) if large else (3, 23)), 64, dtype=torch.float32)],
        lambda x: [x, [-1], True, None],
    )
    yield Card(
        "cumsum",
        "aten::cumsum",
        "262144 rows of 256, bfloat16",
        lambda large: [_draw(1 << 18 if large else 37, 256)],
        lambda x: [x, -1, None],
    )
    yield Card(
        "transpose",
        "aten::copy_",
        "4096 x 4096, bfloat16",
        lambda large: [_draw(*((4096, 4096) if large else (256, 128)))],
        lambda x: [
            torch.empty_strided(x.shape[::-1], (x.shape[0], 1), dtype=x.dtype, device=x.device),
            x.t(),
            False,
        ],
    )
    yield Card(
        "linear_of_one_row",
        "aten::mm",
        "one row of 4096 times a weight of 14336 x 4096, bfloat16: a token of a decoder",
        lambda large: [_draw(1, 4096), _draw(14336 if large else 37, 4096) / 64],
        lambda x, w: [x, w.t()],
    )


def _host() -> Iterator[Card]:
    f32 = torch.float32
    yield Card(
        "linear",
        "aten::addmm",
        "16384 rows of 4 to 2, float32",
        lambda large: [
            _draw(2, dtype=f32),
            _draw(16384 if large else 67, 4, dtype=f32),
            _draw(2, 4, dtype=f32),
        ],
        lambda b, x, w: [b, x, w.t(), 1, 1],
    )
    yield Card(
        "sum_of_8",
        "aten::sum.dim_IntList",
        "131072 rows of 8, float32",
        lambda large: [_draw(1 << 17 if large else 131, 8, dtype=f32)],
        lambda x: [x, [-1], False, None],
    )
