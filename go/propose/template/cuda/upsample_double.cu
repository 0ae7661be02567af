// Upsample by two: nearest, to twice the size in both dims, of tensors without gaps. NCHW (contiguous along W) and NHWC (contiguous along C).
//
// Idea: a thread reads a vector once and writes all that it becomes. NHWC: the vector goes to four pixels. NCHW: each element comes twice in a row, and
// the row twice: with half a vector of 16 bytes each of its two stores is a whole one. UNROLL of them are in flight. Bound: one read, one write.
// Works for: rows, or with NHWC channels, of whole vectors.
// Parameters the tree may change: VEC, THREADS, UNROLL.
// Numerics: exact; elements are moved as bits.

// @include aligned.cuh

template <int N> KF_INLINE void put(ELEMENT* p, const kf_vec<ELEMENT, N>& v, bool aligned) {
  if (aligned) {
    kf_store(p, v);
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
  const INDEX first = INDEX(blockIdx.x) * (THREADS * UNROLL) + INDEX(threadIdx.x);
  kf_vec<ELEMENT, VEC> v[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const INDEX i = first + u * THREADS;
    if (i >= count) break;
    if (aligned) {
      v[u] = kf_load<VEC>(self + i * VEC);
    } else if constexpr (SHIFTED) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[u][j] = self[i * VEC + j];
    }
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    INDEX row = first + u * THREADS;
    if (row >= count) break;
    const INDEX at = vectors.split(row) * VEC;
    if constexpr (LAST) {
      const INDEX pixel = pixels.split(row), channels = inner * VEC, line = 2 * width * channels;
      ELEMENT* to = out + 2 * row * line + 2 * pixel * channels + at;
      put(to, v[u], aligned_out);
      put(to + channels, v[u], aligned_out);
      put(to + line, v[u], aligned_out);
      put(to + line + channels, v[u], aligned_out);
    } else {
      kf_vec<ELEMENT, 2 * VEC> twice;
#pragma unroll
      for (int j = 0; j < 2 * VEC; ++j) twice[j] = v[u][j / 2];
      const INDEX line = 2 * width;
      ELEMENT* to = out + 2 * row * line + 2 * at;
      put(to, twice, aligned_out);
      put(to + line, twice, aligned_out);
    }
  }
}
