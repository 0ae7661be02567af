"""Tensors in the order of their memory: what a device compares in words of 8 bytes is what its elements say."""

import math
import subprocess
import sys

import pytest
import torch

from kernelforge.referee.calls import flat
from kernelforge.referee.doubts import words

SHAPES = [
    lambda size: torch.zeros(size * 8, dtype=torch.int16),
    lambda size: torch.zeros(2, size * 4, 3, 4, dtype=torch.int16).to(memory_format=torch.channels_last),
    lambda size: torch.zeros(size * 8 + 1, dtype=torch.int16),  # no whole number of words
    lambda size: torch.zeros(size * 8 + 1, dtype=torch.int16)[1:],  # begins between two words
    lambda size: torch.zeros(4, size * 8, dtype=torch.uint8)[:, : size * 8 - 4],  # gaps
    lambda size: torch.zeros(size * 8, 4, dtype=torch.int32).t(),
    lambda size: torch.zeros(size, dtype=torch.int64),
    lambda size: torch.zeros((), dtype=torch.int64),
    lambda size: torch.zeros(0, 4, dtype=torch.int16),
]


@pytest.mark.parametrize("make", SHAPES)
def test_one_element_that_differs_is_seen_in_words(make):
    for size in (1, 5):
        for number in range(min(make(size).numel(), 100)):
            a, b = make(size), make(size)
            assert not bool((words(a, b)[0] != words(a, b)[1]).any())
            at = tuple(int(i) for i in torch.unravel_index(torch.tensor(number), a.shape)) if a.dim() else ()
            b[at] = 1
            one, other = words(a, b)
            assert bool((one != other).any())
    a = make(5)
    assert words(a, a)[0].numel() <= a.numel()


def test_a_large_output_is_compared_in_words_and_gaps_are_not():
    a = SHAPES[1](2)
    assert words(a, a.clone())[0].dtype is torch.int64 and words(a, a.clone())[0].numel() == a.numel() // 4
    gaps = torch.zeros(4, 8, dtype=torch.int32)
    a, b = gaps[:, :6], torch.ones(4, 8, dtype=torch.int32)[:, :6].zero_()  # other bits in the gaps
    assert not bool((words(a, b)[0] != words(a, b)[1]).any())


def test_tensors_are_one_line_only_where_their_memory_is():
    a = torch.arange(24).view(2, 3, 4)
    assert flat([a, a])[0].tolist() == list(range(24))
    turned = a.permute(2, 0, 1)
    assert flat([turned, turned])[1].tolist() == list(range(24))
    assert flat([a, turned.contiguous().permute(1, 2, 0)]) is None  # the same elements in another order
    assert flat([a[:, :2], a[:, :2]]) is None
    twice = torch.arange(4).as_strided((2, 2), (0, 3))  # two elements, twice, and two that are none of its
    assert flat([twice, twice]) is None


def test_the_place_of_an_element_is_torchs_and_needs_no_sympy():
    """torch.unravel_index imports sympy, which takes longer than all comparisons of a candidate."""
    from kernelforge.referee.bounds import place_of

    assert place_of(0, ()) == []
    for sizes in ((7,), (3, 1, 5), (2, 3, 4, 5)):
        for at in range(math.prod(sizes)):
            assert place_of(at, torch.Size(sizes)) == [
                int(i) for i in torch.unravel_index(torch.tensor(at), sizes)
            ]
    code = "import sys; from kernelforge.referee.memory import _first_of; import torch; print(_first_of(torch.eye(3) == 0), 'sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 1] False"
