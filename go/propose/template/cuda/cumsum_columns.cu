// Cumulative sum along a dim across which elements lie side by side.
//
// Idea: a thread goes down a vector of VEC columns, UNROLL rows in flight. Few columns are cut into PARTS: a first kernel adds up each part, and a
// part begins with the sum of those before it. Bound: one read and one write (with PARTS two reads).
// Works for: any sizes and strides; where columns are not whole vectors, VEC is 1. The output may be exactly the input.
// Parameters the tree may change: VEC, UNROLL, PARTS, THREADS.
// Numerics: floating point in C, STEP rows in a tree on top of a run that keeps what it rounds off (sum.cuh): a column of one value, added up plainly,
// is off by a rounding of the whole sum for every few rows, where eager's scan in a tree is off by their logarithm. Integers wrap.

// @include walk.cuh

// @include sum.cuh

constexpr int STEP = 4;  // rows whose sums on the way are a tree of their own, on top of the run: fewer additions than a run of single rows

// Goes on by the rows of v, M of them.
template <int M, int N, bool WRITE> KF_INLINE void step(Sum<C> (&total)[N], const kf_vec<IN, N>* v, OUT* out, INDEX to) {
  kf_vec<C, N> x[M];
#pragma unroll
  for (int u = 0; u < M; ++u)
#pragma unroll
    for (int j = 0; j < N; ++j) x[u][j] = C(kf_of(v[u][j]));
#pragma unroll
  for (int half = 1; half < M; half *= 2)
#pragma unroll
    for (int u = 0; u < M; ++u)
      if (u & half) {
#pragma unroll
        for (int j = 0; j < N; ++j) x[u][j] = x[u / half * half - 1][j] + x[u][j];
      }
  if constexpr (WRITE) {
#pragma unroll
    for (int u = 0; u < M; ++u) {
      kf_vec<C, N> y;
#pragma unroll
      for (int j = 0; j < N; ++j) y[j] = total[j].with(x[u][j]);
      kf_store(out + u * to, kf_narrow<OUT>(y));
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) total[j].add(x[M - 1][j]);
}
// Visits rows [begin, end) of N columns: total[j] goes on from its value, and with WRITE each of its values is stored.
template <int N, bool WRITE> KF_INLINE void down(Sum<C> (&total)[N], OUT* out, const IN* in, INDEX to, INDEX from, INDEX begin, INDEX end) {
  INDEX i = begin;
  for (; i + UNROLL <= end; i += UNROLL) {
    kf_vec<IN, N> v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = kf_load<N>(in + (i + u) * from);
#pragma unroll
    for (int u = 0; u < UNROLL; u += STEP) step<STEP, N, WRITE>(total, v + u, out + (i + u) * to, to);
  }
  for (; i < end; ++i) {
    const kf_vec<IN, N> v = kf_load<N>(in + i * from);
    step<1, N, WRITE>(total, &v, out + i * to, to);
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
