"""The numeric rule: every constant of the comparison, with its reason. `docs/tolerance.md` says the same in words.

A pack's evidence names the rule it was judged under, so a constant never changes without RULE. No code lives here.

Symbols: E eager's output in the dtype T, R the same call in float64 on exactly upcast inputs, C the candidate's output, u the unit roundoff
of T, S the scale of an element (the sum of the absolute values of the terms that make it; |R| for pointwise operators).
"""

from __future__ import annotations

from typing import Final

import torch

RULE: Final = 1

UNIT: Final[dict[torch.dtype, float]] = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}
"""u: half the distance from 1 to the next number, the largest relative error of one correct rounding."""

# ---- T2, element by element: |C - R| <= ENVELOPE * min(A, B |R|, N S) + ROUNDING u |R| + TERMS u S ---------------------------------

ENVELOPE: Final[dict[torch.dtype, float]] = {
    torch.float16: 3.0,
    torch.bfloat16: 3.0,
    torch.float32: 2.0,
    torch.float64: 2.0,
}
"""k: how many times eager's largest error in the group is allowed. FlashAttention's tests and torch.compile's accuracy check came to the same
2 and 3 independently. The largest of a group and not the element's own, since eager is exact at single elements by luck."""

ROUNDING: Final[dict[torch.dtype, float]] = {
    torch.float16: 2.0,
    torch.bfloat16: 2.0,
    torch.float32: 2.0,
    torch.float64: 64.0,
}
"""a: roundings of the result that any algorithm may have where eager had none. Two: the last operation and the one before it. In float64 no
wider reference exists, R is eager itself: eager's own error has to fit in here (25 u were seen for softmax, 90 u S for interpolation). A candidate that
computes in float32 is wrong by 5e8 u, so nothing is lost."""

TERMS: Final[dict[torch.dtype, float]] = {
    torch.float16: 8.0,
    torch.bfloat16: 8.0,
    torch.float32: 8.0,
    torch.float64: 1024.0,
}
"""c: roundings relative to the terms, for operators that add terms up (sums, norms, interpolation). Another order of summation moves the
result by a few u S (5 were seen for 331 terms). Its u is ACCUMULATE's: eager adds up half types in float32. Never for pointwise operators. float64: as above."""

ACCUMULATE: Final[dict[torch.dtype, float]] = {
    torch.float16: 2.0**-24,
    torch.bfloat16: 2.0**-24,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}
"""u of the type in which eager adds up."""

GROUP_MIN: Final = 32
"""A group with fewer elements takes in its neighbours: the maximum of a few errors says little about the next one."""

# ---- T3, together: RMSE(C) <= RMSE_RATIO * max(RMSE(E), RMSE(round(R))) + RMSE_UNITS u rms(R) --------------------------------------

RMSE_RATIO: Final = 1.5
"""How much larger than eager's the root mean square error may be. One more rounding in T makes it 1.41 times as large; a step computed in a
narrower type makes it many times as large while each element may still pass T2. round(R), the correctly rounded reference, counts where
eager is better than that by luck."""

RMSE_UNITS: Final[dict[torch.dtype, float]] = {
    torch.float16: 0.125,
    torch.bfloat16: 0.125,
    torch.float32: 1.0,
    torch.float64: 64.0,
}
"""Added slack in u. Small for half types: eager computes them in float32 and rounds once, and so must a candidate. One u in float32: an
elementary function accurate to a unit in the last place instead of eager's half. In float64 it is relative to rms(S), since there eager shows
no error that the ratio above could speak of."""

ROW_RATIO: Final = 4.0
"""The same for every group, against the larger of eager's error there and the ROW_QUANTILE of eager's errors over the groups (relative to the
group's scale). A group's error is often one number that all its elements share (a mean, a maximum), so it varies like a single normal
variable: 4 x 1.64 sigma is passed once in 10^10 groups."""

ROW_QUANTILE: Final = 0.90

BIAS_ERRORS: Final = 4.0
"""The mean signed error may be larger than eager's by this many standard errors (of the groups' means where a group shares its error) ..."""

BIAS_UNITS: Final[dict[torch.dtype, float]] = {
    torch.float16: 0.0625,
    torch.bfloat16: 0.0625,
    torch.float32: 0.5,
    torch.float64: 32.0,
}
"""... plus this many u of the mean magnitude: with 10^7 elements four standard errors are less than a thousandth of a u, which no two good
polynomials share. Truncating instead of rounding is a bias of 0.7 u outward or inward."""

AGGREGATE_MIN: Final = 256
"""T3's whole-tensor tests need this many elements; with fewer, T2 alone speaks."""

# ---- inputs -----------------------------------------------------------------------------------------------------------------------

FRESH: Final = 2
"""Fresh draws a variant: one like the captured data, one with scales that differ from row to row."""

PROBE_LIMIT: Final = 8
"""Exact probes use integers in [-8, 8]: sums of 2^17 of them stay exact in float32."""

PROBE_GRID: Final = 2.0**-16
"""T6 applies where every element of R is a multiple of this: then no algorithm has anything to round on the way."""

# ---- the whole model --------------------------------------------------------------------------------------------------------------

MODEL_RATIO: Final = 2.0
"""With plans on, RMSE against the model run in float64 may be this many times eager's. As in T2: the constant of torch.compile's check."""

MODEL_NOISE_RATIO: Final = 4.0
"""Without a float64 run: this many times the RMSE that eager shows when every input moves by one rounding. Larger, since the noise enters
once, at the inputs, while operators differ at every layer."""

MODEL_NOISE_RUNS: Final = 3
