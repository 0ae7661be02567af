// Upsample by two: nearest, to twice the size in both dims, of tensors without gaps. NCHW (contiguous along W) and NHWC (contiguous along C).
//
// Idea: a thread reads a vector once and writes what it becomes. NHWC: the vector goes to two pixels beside each other. NCHW: each element comes twice in a
// row; with half a vector of 16 bytes its store is a whole one. ROWS 2: to both rows of the output, so that the input is read once; ROWS 1: to one of them,
// so that outputs are written in the order of memory, and the second reading finds the L2. UNROLL of them are in flight. Bound: one read, one write.
// Works for: rows, or with NHWC channels, of whole vectors.
// Parameters the tree may change: VEC, THREADS, UNROLL, ROWS (of the output that a thread writes), ONCE (outputs do not stay in the L2).
// Numerics: exact; elements are moved as bits.

// @include aligned.cuh

template <int N> KF_INLINE void put(ELEMENT* p, const kf_vec<ELEMENT, N>& v, bool aligned) {
  if (aligned) {
    kf_store<ONCE>(p, v);
  } else if constexpr (SHIFTED) {
#pragma unroll
    for (int j = 0; j < N; ++j) p[j] = v[j];
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> vectors = {inner, inner_magic}, pixels = {width, width_magic};
  const bool aligned = aligned_tensor<VEC>(self), aligned_out = aligned_tensor<LAST ? VEC : 2 * VEC>(out);
  const INDEX first = INDEX(blockIdx.x) * (THREADS * UNROLL) + INDEX(threadIdx.x), columns = LAST ? inner * width : inner;
  kf_vec<ELEMENT, VEC> v[UNROLL];
  INDEX row[UNROLL], at[UNROLL];  // of the output with ROWS 1, else of the input; the vector's number in it
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    INDEX i = first + u * THREADS;
    if (i >= count) break;
    const INDEX inside = vectors.split(i), pixel = LAST ? pixels.split(i) : 0;
    row[u] = i, at[u] = LAST ? pixel * inner + inside : inside;
    const ELEMENT* from = self + ((ROWS == 1 ? i >> 1 : i) * columns + at[u]) * VEC;
    if constexpr (LAST) at[u] += pixel * inner;  // of the output's row: the first of two pixels
    if (aligned) {
      v[u] = kf_load<VEC>(from);
    } else if constexpr (SHIFTED) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[u][j] = from[j];
    }
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    if (first + u * THREADS >= count) break;
    const INDEX line = 2 * columns * VEC;
    ELEMENT* to = out + ROWS * row[u] * line + (LAST ? 1 : 2) * at[u] * VEC;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if constexpr (LAST) {
        put(to + r * line, v[u], aligned_out);
        put(to + r * line + inner * VEC, v[u], aligned_out);
      } else {
        kf_vec<ELEMENT, 2 * VEC> twice;
#pragma unroll
        for (int j = 0; j < 2 * VEC; ++j) twice[j] = v[u][j / 2];
        put(to + r * line, twice, aligned_out);
      }
    }
  }
}
