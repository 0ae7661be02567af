// Reduce together: sum, mean or maximum of rows of some vectors, one row behind the other, that a part of a warp takes several of at once: a last axis of 64.
//
// Idea: TEAM lanes load ROWS rows before anything is folded, each load a whole run of memory. Then half of the lanes go on with half of the rows: where
// every lane has ROWS sums, a step gives half of them away and adds what it gets to the others, so that all rows take ROWS - 1 shuffles and not
// ROWS * log2(TEAM), and neighbouring lanes end with neighbouring rows. Bound: one read of the input.
// Works for: rows of TEAM * ITEMS vectors in one run; outputs side by side.
// Parameters the tree may change: ROWS (of a team), THREADS.
// Numerics: in C, pairwise; a NaN makes the maximum NaN.

// @include aligned.cuh
// @include fold.cuh

constexpr int LANES = TEAM / ROWS;  // lanes that end with the same row

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const int lane = threadIdx.x % TEAM;
  const INDEX first = (INDEX(blockIdx.x) * (THREADS / TEAM) + INDEX(threadIdx.x / TEAM)) * ROWS;
  const bool aligned = aligned_tensor<VEC>(self);
  kf_vec<IN, VEC> v[ROWS][ITEMS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const INDEX row = first + r < outputs ? first + r : outputs - 1;  // beyond the last row that one again, whose result nobody writes
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const IN* p = self + ((row * ITEMS + i) * TEAM + lane) * VEC;
      if (aligned) {
        v[r][i] = kf_load<VEC>(p);
      } else if constexpr (SHIFTED) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) v[r][i][j] = p[j];
      }
    }
  }
  C sum[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    kf_vec<C, ITEMS> all;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const kf_vec<kf_acc<IN>, VEC> wide = kf_wide(v[r][i]);
      kf_vec<C, VEC> part;
#pragma unroll
      for (int j = 0; j < VEC; ++j) part[j] = C(wide[j]);
      all[i] = folded(part);
    }
    sum[r] = folded(all);
  }
#pragma unroll
  for (int half = ROWS / 2; half > 0; half /= 2) {
    const bool upper = (lane & half * LANES) != 0;
#pragma unroll
    for (int r = 0; r < half; ++r) {
      const C give = upper ? sum[r] : sum[r + half], keep = upper ? sum[r + half] : sum[r];
      sum[r] = Fold()(keep, kf_shuffle_xor(give, half * LANES));
    }
  }
  const C x = kf_warp_fold<LANES>(sum[0], Fold());
  const INDEX row = first + lane / LANES;
  // Eager multiplies by outputs / elements, which is this to the last bit: a row has a power of two.
  if (lane % LANES == 0 && row < outputs) out[row] = kf_to<OUT>(MEAN ? x * (C(1) / C(TEAM * ITEMS * VEC)) : x);
}
