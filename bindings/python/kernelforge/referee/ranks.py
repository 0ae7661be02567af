"""Values that come with an unspecified order: topk and sort, whose indices of equal values torch leaves open.

The rule. Values: of a sorted result eager's, place by place, a zero of either sign; of an unsorted one eager's as a multiset, row by row. Indices: each
lies in its row, none comes twice, and each names an element that has the value beside it. So among equal values any may be taken, and nothing else. NaN
counts as the largest value and equals NaN. A stable sort leaves nothing open: its indices are eager's.

It owns the comparison of indices with the data they point into, values and indices of one run together. It refuses floating error: nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .bounds import Finding, bits, place_of


class Ranks:
    """What one output of such a call may be.

    Args:
        name: of the output, for messages.
        eager: eager's output.
        values: eager's values, for the indices' bound as for the values'.
        source: the data that indices point into.
        dim: of the rows.
        ordered: whether the values' order is specified (sorted).
        index: whether this is the output of indices.
    """

    def __init__(
        self,
        name: str,
        eager: torch.Tensor,
        values: torch.Tensor,
        source: torch.Tensor,
        dim: int,
        *,
        ordered: bool,
        index: bool,
    ) -> None:
        self.name, self.eager, self._values = name, eager, values
        self._source, self._ordered, self._index = source, ordered, index
        self._dim = dim % max(source.dim(), 1)

    @property
    def nbytes(self) -> int:
        """Memory that it holds, about."""
        return int(self.eager.nbytes + self._source.nbytes)

    @property
    def best(self) -> torch.Tensor:
        """The most exact output there is: eager's."""
        return self.eager

    def compare(self, out: torch.Tensor, run: Sequence[torch.Tensor] = ()) -> Finding:
        """Compare one output of a run. run: all outputs of it, values first."""
        if out.dtype != self.eager.dtype or out.shape != self.eager.shape:
            found, expected = f"{out.dtype} {list(out.shape)}", f"{self.eager.dtype} {list(self.eager.shape)}"
            return Finding(
                "wrong_shape", f"{self.name}: {found} (expected {expected})", float("inf"), gate="values"
            )
        if torch.equal(bits(out), bits(self.eager)):
            return Finding("ok", exact=True)
        if self.eager.dim() == 0:  # one element, which is its own row
            if self._index:
                return self._held(out, "another index than the only one", out != 0)
            return self._held(out, "T1 value by rank", ~_same(out, self.eager))
        return self._indices(out, run[0] if run else self._values) if self._index else self._ranked(out)

    def _ranked(self, out: torch.Tensor) -> Finding:
        expected, found = self._values, out
        if not self._ordered:
            expected, found = (t.sort(self._dim).values for t in (expected, found))
        where = "T1 value by rank" if self._ordered else "T1 value, each row in ascending order"
        return self._held(found, where, ~_same(found, expected), expected)

    def _indices(self, out: torch.Tensor, values: torch.Tensor) -> Finding:
        size = self._source.shape[self._dim]
        outside = (out < 0) | (out >= size)
        if bool(outside.any()):
            return self._held(out, f"an index outside of its row of {size}", outside)
        twice = torch.zeros_like(out, dtype=torch.bool)
        order = out.sort(self._dim)
        again = order.values.diff(dim=self._dim) == 0
        if bool(again.any()):
            later = order.indices.narrow(self._dim, 1, again.shape[self._dim])
            twice.scatter_(self._dim, later, again)
            return self._held(out, "an index that comes twice in its row", twice)
        wrong = ~_same(self._source.gather(self._dim, out), values)
        return self._held(out, "an index whose element has another value than the one beside it", wrong)

    def _held(
        self, out: torch.Tensor, why: str, bad: torch.Tensor, expected: torch.Tensor | None = None
    ) -> Finding:
        if not bool(bad.any()):
            return Finding("ok")
        at = int(bad.reshape(-1).int().argmax())
        place = place_of(at, out.shape)
        wanted = (self.eager if expected is None else expected).reshape(-1)[at].item()
        seen = f"at {place}: {out.reshape(-1)[at].item()} (expected {wanted}{', or an equal element' if self._index else ''})"
        return Finding(
            "wrong_value",
            f"{self.name}: {why}: {int(bad.sum())} of {out.numel()} elements, {seen}",
            float("inf"),
            gate="values",
        )


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (torch.isnan(a) & torch.isnan(b))
