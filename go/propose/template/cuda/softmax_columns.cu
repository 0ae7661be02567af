// Softmax or (LOG) log-softmax along a dim that is not the innermost.
//
// Idea: a block has ACROSS vectors of neighbouring columns; its threads share each column's elements. HOLD: they stay in registers, so the
// tensor is read once; otherwise a second reading finds some of them in the caches. Bound: copy of the bytes.
// Works for: contiguous tensors seen as outer x dim x inner; VEC divides inner.
// Parameters the tree may change: THREADS, ACROSS, VEC (columns of an access).
// Numerics: as softmax_warps; sums of threads are scaled to the common maximum when they are joined.

// @include rows.cuh

// @include softmax.cuh

constexpr int DOWN = THREADS / ACROSS;  // threads of a column
constexpr int LINES = THREADS / 32;
constexpr bool KEEP = kf_is_half<OUT> && !LOG;  // exponentials below a thread's own maximum; two exponents would cost wider types digits

constexpr int BATCH = 8;  // elements of a column that are loaded together and added in pairs: long chains of sums are inexact

// Joins U elements of each column, `step` apart, to its part.
template <int U> KF_INLINE void batch(const IN* p, int64_t step, bool aligned, Part (&part)[VEC]) {
  kf_vec<A, VEC> v[U];
#pragma unroll
  for (int u = 0; u < U; ++u) v[u] = get<VEC>(p + u * step, aligned);
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    A most = v[0][e], sum[U];
#pragma unroll
    for (int u = 1; u < U; ++u) most = most_of(most, v[u][e]);
#pragma unroll
    for (int u = 0; u < U; ++u) sum[u] = power(v[u][e] - base_of(most));
    part[e] = Join()(part[e], Part{most, total<U>(sum)});
  }
}
// Joins the parts of the threads of each column. kept: shared memory, the same for each join of a kernel (one of its own would be one a fold).
template <class Fold> KF_INLINE void join(Part (&part)[VEC], Part (&kept)[LINES][ACROSS * VEC], Fold fold) {
  const int column = threadIdx.x % ACROSS, warp = threadIdx.x / 32;
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
#pragma unroll
    for (int lanes = 16; lanes >= ACROSS; lanes /= 2) part[e] = fold(part[e], kf_shuffle_xor(part[e], lanes));
    if (threadIdx.x % 32 < ACROSS) kept[warp][column * VEC + e] = part[e];
  }
  __syncthreads();
  for (int c = threadIdx.x; c < ACROSS * VEC; c += THREADS) {
    Part all = kept[0][c];
    for (int w = 1; w < LINES; ++w) all = fold(all, kept[w][c]);
    kept[0][c] = all;
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < VEC; ++e) part[e] = kept[0][column * VEC + e];
  if constexpr (FLOAT) __syncthreads();  // it is written once more
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const INDEX outer = INDEX(blockIdx.x) / blocks, column = ((INDEX(blockIdx.x) - outer * blocks) * ACROSS + INDEX(threadIdx.x % ACROSS)) * VEC;
  const int n = int(length), first = threadIdx.x / ACROSS;
  const bool valid = column < inner, aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  const int64_t from = int64_t(outer) * n * inner + (valid ? column : 0);
  const IN* p = x + from;
  OUT* o = out + from;
  __shared__ Part kept[LINES][ACROSS * VEC];
  Part part[VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) part[e] = nothing();
  if constexpr (HOLD) {
    kf_vec<A, VEC> v[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int d = i * DOWN + first;
      v[i] = valid && d < n ? get<VEC>(p + int64_t(d) * inner, aligned) : all_of<VEC>(-kf_infinity<A>());
    }
    A mine[VEC];  // the maxima below which exponentials are made: this thread's, or the column's
#pragma unroll
    for (int e = 0; e < VEC; ++e)
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) part[e].most = most_of(part[e].most, v[i][e]);
    if constexpr (FLOAT) join(part, kept, [](Part a, Part b) { return Part{most_of(a.most, b.most), A(0)}; });
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      mine[e] = part[e].most;
      const A base = base_of(mine[e]);
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const A below = power(v[i][e] - base);
        part[e].sum += below;
        if constexpr (KEEP || FLOAT) v[i][e] = below;
      }
    }
    if constexpr (FLOAT) join(part, kept, [](Part a, Part b) { return Part{a.most, a.sum + b.sum}; });
    else join(part, kept, Join());
    if (!valid) return;
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      const Finish finish(part[e]);
      if constexpr (FLOAT) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) v[i][e] = finish.of_power(v[i][e]);
      } else if constexpr (KEEP) {
        const A lower = rescale(mine[e], finish.base);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) v[i][e] = finish.of_power(v[i][e] * lower);
      } else {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) v[i][e] = finish.of_element(v[i][e]);
      }
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int d = i * DOWN + first;
      if (d < n) put<VEC>(o + int64_t(d) * inner, v[i], aligned);
    }
  } else {
    const int64_t step = int64_t(DOWN) * inner;
    int d = valid ? first : n;
    for (; d + (BATCH - 1) * DOWN < n; d += BATCH * DOWN) batch<BATCH>(p + int64_t(d) * inner, step, aligned, part);
    for (; d < n; d += DOWN) batch<1>(p + int64_t(d) * inner, step, aligned, part);
    join(part, kept, Join());
    if (!valid) return;
    for (int d = first; d < n; d += DOWN) {
      kf_vec<A, VEC> v = get<VEC>(p + int64_t(d) * inner, aligned);
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[e] = Finish(part[e]).of_element(v[e]);
      put<VEC>(o + int64_t(d) * inner, v, aligned);
    }
  }
}
