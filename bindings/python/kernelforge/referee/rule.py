"""The numeric rule: every constant of the comparison, with its reason. `docs/tolerance.md` says the same in words.

A pack's evidence names the rule it was judged under, so a constant never changes without RULE. No code lives here.

Symbols: E eager's output in the dtype T, R the same call in float64 on exactly upcast inputs, C the candidate's output, u the unit roundoff
of T, S the scale of an element (the sum of the absolute values of the terms that make it; |R| for pointwise operators).
"""

from __future__ import annotations

from typing import Final

import torch

RULE: Final = 2

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

# ---- T4, the cap: where |C - R| exceeds it, ENVELOPE's multiple of eager's error is not granted, only eager's own -------------------

CAP: Final = 8.0
"""How many times what torch.testing.assert_close allows by default an error may reach because eager's own is large. T2 grows with eager's error
without end: where eager is off by a hundred roundings, twice that is too much to accept unseen."""

CAP_DEFAULTS: Final[dict[torch.dtype, tuple[float, float]]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}
"""(rtol, atol) of assert_close. They are torch's own idea of what two right results may differ by, tuned over years on all of its operators."""

# ---- T2x, exhaustive: every input of a unary pointwise operator ---------------------------------------------------------------------

EXHAUSTIVE_STRIDE: Final = 1021
"""On the host a float32 operator is compared on every 1021st of the 2^32 inputs, from a start that the seed draws: 4.2 million, in half a second. All of
them would take minutes for each finalist. A prime, so that no bit of the mantissa stays the same; 8,200 inputs of each binade are seen."""

EXHAUSTIVE_CALLS: Final = 1 << 15
"""A finalist is called on its own shape, and one of a single float32 would be called 2^32 times, for days. So many calls take two or three seconds; where
they do not hold all inputs, every n-th is compared, n a prime again: of a float32 tensor of fewer than 131,072 elements. Half types are always whole."""

EXHAUSTIVE_CHUNK: Final[dict[str, int]] = {"host": 1 << 20, "cuda": 1 << 24}
"""Inputs that are compared at a time: memory for some temporaries in float64, 100 MiB and 2 GiB."""

EXHAUSTIVE_GROUP: Final[dict[str, int]] = {"host": 1 << 12, "cuda": 1 << 20}
"""Inputs in a row that share an error: half a binade on the host, an eighth of one on a device. Finer than T2's groups, since here every group has enough
elements. Where fewer inputs are compared a group has as many as fill half a binade, and EXHAUSTIVE_GROUP_16 at least: of a tensor of fewer than four elements
it is several binades."""

HALF_BINADE: Final = 1 << 22
"""Inputs of float32, by their bits."""

EXHAUSTIVE_GROUP_16: Final = 1 << 7
"""The same for 16-bit types: a binade of bfloat16, an eighth of one of float16."""

# ---- T5, negative controls ----------------------------------------------------------------------------------------------------------

HARDER: Final = 3
"""More draws that are tried where a control passes, before the card is given up: of one sign (sums cannot cancel), far from zero, and another like the
captured data."""

MANTISSA: Final[dict[torch.dtype, int]] = {
    torch.float16: 7,
    torch.bfloat16: 3,
    torch.float32: 10,
    torch.float64: 23,
}
"""Bits of the mantissa of the next lower precision: bfloat16 for float16, an 8-bit float for bfloat16, TF32 for float32, float32 for float64. TF32 and
float16 have the same ten: the nearest that a float32 kernel comes to a wrong type."""

# ---- T7, metamorphic probes ---------------------------------------------------------------------------------------------------------

INVARIANT_UNITS: Final = 4.0
"""Roundings that a row's sum of a softmax, or mean and variance of a norm, may be off where eager's own are not; and INVARIANT_RATIO times what eager's
worst row is off. The sum over a row averages the errors of single elements, so this is tighter than T2."""

INVARIANT_RATIO: Final = 2.0

SHIFT: Final = 16.0
"""Added to rows of small integers: exact in every type, so that a softmax is the same to the last bit but for how it computes."""

ALIGN_BYTES: Final = 64
"""Rows change places only over multiples of this many bytes: a kernel may treat a row by its address's alignment, as eager's softmax does."""

# ---- inputs -----------------------------------------------------------------------------------------------------------------------

FRESH: Final = 2
"""Fresh draws a variant: one like the captured data, one with scales that differ from row to row."""

PROBE_LIMIT: Final = 8
"""Exact probes use integers in [-8, 8]: sums of 2^17 of them stay exact in float32."""

CANCEL_LEAST: Final = 16
"""Of the second probe of sums in half types: elements of a row, and the largest integer, at least. Integers of the type's whole mantissa (256 in bfloat16,
2048 in float16) cancel within each row: sums on the way need more bits than the type has, the result few. Where an operator gives few outputs, this tells
a sum in the half type from eager's in float32, which statistics cannot."""

FEW_ROWS: Final = 8
CANCEL_CASES: Final = 3
"""Below FEW_ROWS rows there are CANCEL_CASES such inputs: roundings of a single row cancel by luck now and then."""

PROBE_GRID: Final = 2.0**-16
"""T6 applies where every element of R is a multiple of this: then no algorithm has anything to round on the way."""

# ---- the whole model --------------------------------------------------------------------------------------------------------------

MODEL_RATIO: Final = 2.0
"""With plans on, RMSE against the model run in float64 may be this many times eager's. As in T2: the constant of torch.compile's check."""

MODEL_NOISE_RATIO: Final = 4.0
"""Without a float64 run: this many times the RMSE that eager shows when every input moves by one rounding. Larger, since the noise enters
once, at the inputs, while operators differ at every layer."""

CHAIN_STEPS: Final = 28
"""Steps of a chained run: each output is made the next input, so that an error of one sign adds up to 28 times itself and one of chance to 5 times. The
number of steps of a usual diffusion schedule."""

CHAIN_RATIO: Final = 4.0
"""How much further than eager's own drift a chained run with plans may be at any step. As MODEL_NOISE_RATIO: a chain stretches what the first steps did,
and by how much is one draw of chance for eager and another for the plans."""

CHAIN_NOISE_RUNS: Final = 3
"""Eager's drift is the largest of its distance from the float64 run and of this many runs whose inputs move by one rounding at every step."""

CHAIN_SATURATED: Final = 0.05
"""Of the output's size: where eager's own drift is beyond it, the chain says nothing more and is cut there."""

CHAIN_SECONDS: Final = 30.0
"""At most, as told by one forward of eager: a model that would take longer is chained operator by operator."""

MODEL_NOISE_RUNS: Final = 3
