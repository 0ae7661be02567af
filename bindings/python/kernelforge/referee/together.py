"""T3: the error of a tensor and of each of its groups taken together, and its bias. Catches a cut in precision that each element alone hides."""

from __future__ import annotations

import math

import torch

from .calls import flat
from .groups import Groups
from .rule import (
    AGGREGATE_MIN,
    BIAS_ERRORS,
    BIAS_UNITS,
    GROUP_MIN,
    RMSE_RATIO,
    RMSE_UNITS,
    ROW_QUANTILE,
    ROW_RATIO,
    UNIT,
)


class Together:
    """What the errors of one output may come to.

    Args:
        eager: eager's output, in float64.
        wide: the reference.
        terms: S.
        usual: elements that count: finite in eager, and the reference within the type's range.
        dtype: of the output.
    """

    def __init__(
        self,
        eager: torch.Tensor,
        wide: torch.Tensor,
        terms: torch.Tensor,
        usual: torch.Tensor,
        groups: Groups,
        dtype: torch.dtype,
    ) -> None:
        self._wide, self._groups, self._numbers = wide, groups, False
        self._usual = None if bool(usual.all()) else usual
        self._n = max(int(usual.sum()), 1)
        self._count = groups.sum(usual.double()).clamp(min=1)
        slack = UNIT[dtype] * self._kept(terms if dtype is torch.float64 else wide.abs())
        error = self._kept(eager - wide)
        rounded = self._kept(wide.to(dtype).double() - wide)  # the error of the correctly rounded reference
        self._limit = RMSE_RATIO * max(self._rms(error), self._rms(rounded)) + RMSE_UNITS[dtype] * self._rms(
            slack
        )
        self._variance = self._spread(error)
        self._bias = [abs(m) + BIAS_UNITS[dtype] * self._mean(slack) for m in self._means(error)]
        # Groups: the larger of eager's error there and what is usual over the groups, relative to the group's scale.
        mine = torch.maximum(self._by_group(error), self._by_group(rounded))
        size = self._by_group(self._kept(terms))
        relative = torch.where(size > 0, mine / size, 0.0).reshape(-1)
        rank = max(1, int(ROW_QUANTILE * relative.numel()))
        often = float(relative.kthvalue(rank).values) if relative.numel() else 0.0
        self._rows = ROW_RATIO * torch.maximum(mine, often * size) + RMSE_UNITS[dtype] * self._by_group(slack)
        self._rows += torch.finfo(dtype).tiny

    def narrow(self, wide: torch.Tensor) -> None:
        """Take this reference, in float32 and without a NaN, in place of the one in float64: here its signs alone are needed."""
        self._wide, self._numbers = wide, True

    def compare(self, error: torch.Tensor) -> tuple[str, float, int] | None:
        """Return which test a candidate's errors fail, by what factor, and the number of the element that adds most to it; None if none.

        error: its values minus the reference's.
        """
        error = self._kept(error)
        squares = error.square()
        # An output with fewer elements than a group should have: eager's error there may be 0 by luck, so that T2 alone speaks.
        mine = (self._groups.sum(squares) / self._count).sqrt()
        rows = torch.where(self._count < GROUP_MIN, 0.0, mine / self._rows)
        worst = float(rows.max()) if rows.numel() else 0.0
        if worst > 1.0:
            inside = error.abs() * (self._groups.expand(rows) == worst)
            at = int(inside.reshape(-1).argmax())
            number = int(rows.reshape(-1).argmax())
            sizes = (
                f"{float(mine.reshape(-1)[number]):.3g} (at most {float(self._rows.reshape(-1)[number]):.3g})"
            )
            return f"T3 root mean square error of a group {sizes}", worst, at
        if self._n < AGGREGATE_MIN:
            return None
        total = math.sqrt(float(squares.sum()) / self._n)
        if total > self._limit:
            return (
                f"T3 root mean square error {total:.3g} (at most {self._limit:.3g})",
                total / self._limit,
                _largest(error),
            )
        spread = BIAS_ERRORS * math.sqrt(self._variance + self._spread(error, total))
        for what, mean, usual in zip(("signed", "outward"), self._means(error), self._bias, strict=True):
            if abs(mean) > usual + spread:
                detail = (
                    f"T3 bias: mean {what} error {mean:.3g} (at most {usual + spread:.3g} of either sign)"
                )
                return detail, abs(mean) / (usual + spread), _largest(error)
        return None

    def used(self, error: torch.Tensor) -> dict[str, float]:
        """Return how much of each limit these errors take: `group`, `rmse`, `bias`."""
        error = self._kept(error)
        rows = torch.where(self._count < GROUP_MIN, 0.0, self._by_group(error) / self._rows)
        found = {"group": float(rows.max()) if rows.numel() else 0.0}
        if self._n < AGGREGATE_MIN:
            return found
        spread = BIAS_ERRORS * math.sqrt(self._variance + self._spread(error))
        bias = max(
            abs(m) / (b + spread) for m, b in zip(self._means(error), self._bias, strict=True) if b + spread
        )
        return {**found, "rmse": self._rms(error) / self._limit if self._limit else 0.0, "bias": bias}

    def _kept(self, t: torch.Tensor) -> torch.Tensor:
        return t if self._usual is None else torch.where(self._usual, t, 0.0)

    def _by_group(self, t: torch.Tensor) -> torch.Tensor:
        return (self._groups.sum(t.square()) / self._count).sqrt()

    def _spread(self, error: torch.Tensor, total: float | None = None) -> float:
        """The variance of the mean error: over the elements, or over the groups where all elements of a group move together. total: their root mean
        square, if it is known."""
        by_element = (self._rms(error) if total is None else total) ** 2 / self._n
        if not self._groups.shared or self._count.numel() < 2:
            return by_element
        means = self._groups.sum(error) / self._count
        return max(by_element, float(means.var()) / means.numel())

    def _rms(self, t: torch.Tensor) -> float:
        return math.sqrt(float(t.square().sum()) / self._n)

    def _mean(self, t: torch.Tensor) -> float:
        return float(t.sum()) / self._n

    def _means(self, error: torch.Tensor) -> tuple[float, float]:
        """The mean error, and the mean error away from zero: truncation is a bias of the second kind only."""
        away = self._wide.sign().to(error.dtype)
        if not self._numbers:
            away.nan_to_num_()
        outward = torch.dot(*(flat([error, away]) or (error.reshape(-1), away.reshape(-1))))
        return self._mean(error), float(outward) / self._n


def _largest(error: torch.Tensor) -> int:
    return int(error.abs().reshape(-1).argmax())
