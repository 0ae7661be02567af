"""Values of two runs of the guard fuzz, held against each other: the same bits, or within a few roundings."""

from __future__ import annotations

import torch

from kernelforge.referee.bounds import bits

# How many roundings a value may be away that a plan had a part in.
ROUNDINGS = {torch.float64: 32, torch.float32: 32, torch.bfloat16: 4, torch.float16: 4}


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors hold the same bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_complex():
        return same(torch.view_as_real(a), torch.view_as_real(b))
    return bool(torch.equal(bits(a.contiguous()), bits(b.contiguous())))


def close(a: torch.Tensor, b: torch.Tensor, largest: float) -> bool:
    """Return whether two tensors agree within some roundings of each value and of the call's largest (a derivative may cancel to nothing), with NaN and
    infinities in the same places."""
    if same(a, b):
        return True
    roundings = ROUNDINGS.get(b.dtype)
    if a.dtype != b.dtype or a.shape != b.shape or roundings is None:
        return False
    x, y = a.double(), b.double()
    finite = y.isfinite()
    if not torch.equal(x[~finite].nan_to_num(1.0), y[~finite].nan_to_num(1.0)) or not bool(
        x[finite].isfinite().all()
    ):
        return False
    x, y = x[finite], y[finite]
    if y.numel() == 0:
        return True
    allowed = roundings * torch.finfo(b.dtype).eps / 2 * (y.abs() + largest)
    return bool(((x - y).abs() <= allowed).all())


def first(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} (eager's {b.dtype}{list(b.shape)})"
    unequal = (a != b) & ~((a != a) & (b != b))
    if not bool(unequal.any()):
        return "the bits of a zero or of a NaN"
    at = tuple(int(i) for i in unequal.nonzero()[0])
    return f"at {list(at)} {a[at].item()} (eager's {b[at].item()})"


def largest(t: torch.Tensor) -> float:
    finite = t[t.isfinite()] if t.is_floating_point() else t[:0]
    return float(finite.abs().max()) if finite.numel() else 0.0
