// Cumulative sum along a dim across which elements lie side by side.
//
// Idea: a thread goes down a vector of VEC columns, UNROLL rows in flight. Few columns are cut into PARTS: a first kernel adds up each part, and a
// part begins with the sum of those before it. Bound: one read and one write (with PARTS two reads).
// Works for: any sizes and strides; where columns are not whole vectors, VEC is 1. The output may be exactly the input.
// Parameters the tree may change: VEC, UNROLL, PARTS, THREADS.
// Numerics: floating point in C, in the order of the column, with what it rounds off (sum.cuh): a column of one value, added up plainly, is off by a
// rounding of the whole sum for every few rows, where eager's scan in a tree is off by their logarithm. Integers wrap.

// @include walk.cuh

// @include sum.cuh

template <int N> KF_INLINE kf_vec<C, N> values(const Sum<C> (&total)[N]) {
  kf_vec<C, N> v;
#pragma unroll
  for (int j = 0; j < N; ++j) v[j] = total[j].value();
  return v;
}
// Visits rows [begin, end) of N columns: total[j] goes on from its value, and with WRITE each of its values is stored.
template <int N, bool WRITE> KF_INLINE void down(Sum<C> (&total)[N], OUT* out, const IN* in, INDEX to, INDEX from, INDEX begin, INDEX end) {
  INDEX i = begin;
  for (; i + UNROLL <= end; i += UNROLL) {
    kf_vec<IN, N> v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = kf_load<N>(in + (i + u) * from);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int j = 0; j < N; ++j) total[j].add(C(kf_of(v[u][j])));
      if (WRITE) kf_store(out + (i + u) * to, kf_narrow<OUT>(values(total)));
    }
  }
  for (; i < end; ++i) {
    const kf_vec<IN, N> v = kf_load<N>(in + i * from);
#pragma unroll
    for (int j = 0; j < N; ++j) total[j].add(C(kf_of(v[j])));
    if (WRITE) kf_store(out + i * to, kf_narrow<OUT>(values(total)));
  }
}

// The items of `columns` / N vectors: the vectors of part 0, then those of part 1, ...
template <int N, bool LAST> KF_INLINE void all(OUT* out, const IN* self, C* parts, const Walk<2, DIMS>& walk, INDEX columns, INDEX length, INDEX to, INDEX from) {
  const INDEX vectors = columns / N, each = (length + PARTS - 1) / PARTS;
  for (INDEX item = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x); item < vectors * PARTS; item += INDEX(gridDim.x) * THREADS) {
    const INDEX part = PARTS == 1 ? 0 : item / vectors, column = PARTS == 1 ? item : item % vectors;
    INDEX at[2];
    walk.find(column, at);
    Sum<C> total[N];
    const INDEX begin = part * each, end = begin + each < length ? begin + each : length;
    if (LAST && PARTS > 1) {
#pragma unroll 8
      for (INDEX p = 0; p < part; ++p)
#pragma unroll
        for (int j = 0; j < N; ++j) total[j].add(parts[p * columns + column * N + j]);
    }
    down<N, LAST>(total, out + at[0], self + at[1], to, from, begin, end);
    if (!LAST) {
#pragma unroll
      for (int j = 0; j < N; ++j) parts[part * columns + column * N + j] = total[j].value();
    }
  }
}

#if PARTS > 1
KF_KERNEL(THREADS) void kf_sums(
// @parameters
) {
// @walks
  if (VEC > 1 && aligned_tensor<VEC>(self) && aligned_tensor<VEC>(out)) all<VEC, false>(out, self, parts, vectors, columns, length, to, from);
  else if constexpr (VEC == 1 || SHIFTED) all<1, false>(out, self, parts, elements, columns, length, to, from);
}
#endif

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
#if PARTS == 1
  C* parts = nullptr;
#endif
  if (VEC > 1 && aligned_tensor<VEC>(self) && aligned_tensor<VEC>(out)) all<VEC, true>(out, self, parts, vectors, columns, length, to, from);
  else if constexpr (VEC == 1 || SHIFTED) all<1, true>(out, self, parts, elements, columns, length, to, from);
}
