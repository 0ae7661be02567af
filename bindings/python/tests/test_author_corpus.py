"""The kernels of bench/authored without a GPU: on the CPU (blocks.py) the referee finds right what is meant to be.

Policy, compiler and image check: go/judge/authored_test.go.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import blocks
from calling import call_of
from kernelforge.referee.cases import Variant, bounds_of
from redteam_blocks import compared

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import author_cards  # noqa: E402

CARDS = author_cards.cards("cuda")
BOLD = {  # an idea that the judge has to refuse, and the attempt that answers it
    "softmax": "05_no_maximum",
    "layer_norm": "02_sums_of_squares",
    "sum_of_8": "04_added_in_pairs_of_16_bits",
}


def _candidate(attempt: author_cards.Attempt) -> dict[str, Any]:
    return {"family": attempt.name, "source": attempt.source, "spec": attempt.spec}


class Judged:
    """The inputs of a card's small call, with what each output of a right candidate may be."""

    def __init__(self, card: author_cards.Card) -> None:
        payload = card.arguments(*card.tensors(False))
        self.call = call_of(card.overload, payload)
        variant = Variant(self.call, payload, seed=11)
        self.cases: list[Any] = []
        every = (
            3 if card.name == "group_norm" else 1
        )  # its groups cannot be small, and threads are fibers here
        for case in list(variant.inputs())[::every]:
            tensors = variant.draw(case.kind, case.number)
            bounds: list[Any] = bounds_of(variant.overload, variant.arguments(tensors), case.kind)
            self.cases.append((case, tensors, bounds))
        self.pool = card.name == "max_pool"
        self.compared = len(self.call["outputs"])
        if (
            card.name == "layer_norm"
        ):  # on a device its statistics are float32, on the CPU bfloat16: these are not compared
            self.compared = 1
            for out in self.call["outputs"][1:]:
                out["dtype"] = "float32"

    def end(self, attempt: author_cards.Attempt, objects: dict[str, Any]) -> tuple[str, str]:
        """Return (status, detail), as the gates on a device would."""

        def launch(tensors: Any, bounds: list[Any], **options: Any) -> list[torch.Tensor]:
            outs = blocks.launch(_candidate(attempt), objects, self.call, tensors, **options)
            if (
                self.pool
            ):  # where nothing is above -infinity eager's index is 0 on a device, the first place here
                low = outs[0] == -torch.inf
                assert (outs[1][low] == 0).all()
                outs[1] = torch.where(low, bounds[1].eager, outs[1])
            return outs

        return compared(self, launch)


@pytest.mark.parametrize("name", CARDS)
def test_kernels_for_a_card_end_as_they_are_meant_to(name: str) -> None:
    attempts, judged = author_cards.attempts("cuda", name), Judged(CARDS[name])
    objects = blocks.compile_all([_candidate(a) for a in attempts], soiled=True)
    for attempt in attempts:
        status, detail = judged.end(attempt, objects)
        expected = "wrong_value" if attempt.name == BOLD.get(name) else "ok"
        assert status == expected, f"{attempt.name}: {detail}"


def test_a_bold_kernel_is_answered_and_names_are_those_of_kernels() -> None:
    for target in ("cuda", "host"):
        for name in author_cards.cards(target):
            attempts = author_cards.attempts(target, name)
            known: set[str] = set()
            for attempt in attempts:
                assert {attempt.parent, attempt.answers} <= known | {""}, f"{name}/{attempt.name}"
                known.add(attempt.name)
            assert len({a.source for a in attempts}) == len(attempts) > 1
    for name, bold in BOLD.items():
        assert bold in {a.answers for a in author_cards.attempts("cuda", name)}
    assert sum(len(author_cards.attempts("cuda", name)) for name in CARDS) >= 30
