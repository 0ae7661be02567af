"""What a faster operator is worth to the whole model."""

from __future__ import annotations

import math


def amdahl_speedup(share: float, ratio: float = math.inf) -> float:
    """Return the speed-up of the whole model when an operator with this share becomes `ratio` times faster.

    Args:
        share: fraction of the model's time spent in the operator, 0 to 1.
        ratio: eager time / new time of the operator; infinity gives the bound if it were removed.

    Raises:
        ValueError: share outside 0 to 1, or ratio not positive.

    Example:
        >>> round(amdahl_speedup(0.58, 17.4), 2)
        2.21

    Source: Amdahl (1967).
    """
    if not 0 <= share <= 1 or not ratio > 0:
        raise ValueError(f"speed-up for share {share} and ratio {ratio}: expected 0 to 1 and above 0")
    left = 1 - share + share / ratio
    return math.inf if left == 0 else 1 / left
