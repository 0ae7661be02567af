// Reduce vectors: sum, mean or maximum of rows that are one vector or a few, one row behind the other: a last axis of 8.
//
// Idea: a thread has whole rows in registers and meets no other thread: NEXT rows beside each other, whose results are one store, and UNROLL times that
// with all loads in flight. Bound: one read of the input and one write of the results.
// Works for: rows of VECTORS vectors of VEC elements in one run; outputs side by side.
// Parameters the tree may change: NEXT, UNROLL, THREADS.
// Numerics: in C, pairwise; a NaN makes the maximum NaN.

// @include aligned.cuh
// @include fold.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  kf_vec<IN, VEC> v[UNROLL][NEXT * VECTORS];
  const INDEX first = INDEX(blockIdx.x) * (THREADS * UNROLL) + INDEX(threadIdx.x);
  const bool aligned = aligned_tensor<VEC>(self), whole = aligned_tensor<NEXT>(out);
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX row = (first + u * THREADS) * NEXT;
    if (row >= outputs) break;
#pragma unroll
    for (int k = 0; k < NEXT * VECTORS; ++k) {
      const IN* p = self + (row * VECTORS + k) * VEC;
      if (aligned) {
        v[u][k] = kf_load<VEC>(p);
      } else if constexpr (SHIFTED) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) v[u][k][j] = p[j];
      }
    }
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX row = (first + u * THREADS) * NEXT;
    if (row >= outputs) break;
    kf_vec<OUT, NEXT> result;
#pragma unroll
    for (int r = 0; r < NEXT; ++r) {
      kf_vec<C, VEC * VECTORS> all;
#pragma unroll
      for (int k = 0; k < VEC * VECTORS; ++k) all[k] = C(kf_of(v[u][r * VECTORS + k / VEC][k % VEC]));
      result[r] = finish(folded(all), outputs, numel);
    }
    if (whole) {
      kf_store(out + row, result);
    } else if constexpr (SHIFTED) {
#pragma unroll
      for (int r = 0; r < NEXT; ++r) out[row + r] = result[r];
    }
  }
}
