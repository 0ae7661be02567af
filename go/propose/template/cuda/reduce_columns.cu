// Reduce columns: sum, mean or maximum where kept elements lie side by side.
//
// Idea: a block is COLS threads across, each with a vector of VEC columns, and THREADS / COLS threads down, which share the reduced rows; UNROLL
// rows are in flight, with ONE all that there are. Shared memory joins the threads of a column. Few columns of many rows are cut into PARTS, whose
// results a second kernel joins: no atomics, so the same bits every time. Bound: one read of the input.
// Works for: any dims and strides; where columns are not whole vectors, VEC is 1.
// Parameters the tree may change: VEC, COLS, UNROLL, PARTS, THREADS.
// Numerics: in C. UNROLL rows are folded in pairs, then added to their column's run, which keeps what it rounds off; those of the threads of a column
// are joined in pairs. A NaN makes the maximum NaN.

// @include walk.cuh
// @include fold.cuh

constexpr int OUTPUT = 1;  // which operand of the kept dims' walk is the output
constexpr int ROWS = THREADS / COLS, LAST = kf_least(ROWS, 8);

// UNROLL vectors, those that there are, each element folded with those of its column.
template <int N, class There> KF_INLINE void fold(C (&all)[N], const kf_vec<IN, N> (&v)[UNROLL], There there) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    kf_vec<C, UNROLL> x;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) x[u] = there(u) ? C(kf_of(v[u][j])) : start();
    all[j] = folded(x);
  }
}
// Adds them to their columns' runs.
template <int N, class There> KF_INLINE void add(Run (&run)[N], const kf_vec<IN, N> (&v)[UNROLL], There there) {
  C x[N];
  fold(x, v, there);
#pragma unroll
  for (int j = 0; j < N; ++j) run[j].add(x[j]);
}
template <int N> KF_INLINE void columns(C* shared, const IN* self, OUT* out, C* parts, const Walk<2, DIMS>& kept, const Walk<2, DIMS>& elements,
                                        const Walk<1, ROW_DIMS>& rows, INDEX length, INDEX outputs, INDEX numel) {
  const INDEX x = threadIdx.x % COLS, y = threadIdx.x / COLS, part = blockIdx.y;
  const INDEX all = outputs / N, each = (length + PARTS - 1) / PARTS, begin = part * each, end = begin + each < length ? begin + each : length;
  // With N below VEC there are more columns than the grid was made for.
  for (INDEX block = blockIdx.x; block * COLS < all; block += gridDim.x) {
    const INDEX column = block * COLS + x;
    C sum[N];
    if constexpr (ONE) {
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] = start();
      if (column < all) {
        INDEX at[2], row[1];
        kept.find(column, at);
        kf_vec<IN, N> v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          rows.find(y + u * ROWS, row);
          if (y + u * ROWS < length) v[u] = kf_load<N>(self + at[0] + row[0]);
        }
        fold(sum, v, [&](int u) { return y + u * ROWS < length; });
      }
    } else {
      Run run[N];
      if (column < all) {
        INDEX at[2], row[1];
        kept.find(column, at);
        const IN* in = self + at[0];
        INDEX r = begin + y;
        for (; r + (UNROLL - 1) * ROWS < end; r += UNROLL * ROWS) {
          kf_vec<IN, N> v[UNROLL];
#pragma unroll
          for (int u = 0; u < UNROLL; ++u) {
            rows.find(r + u * ROWS, row);
            v[u] = kf_load<N>(in + row[0]);
          }
          add(run, v, [](int) { return true; });
        }
        if (r < end) {  // what is left of a step, in flight together too
          kf_vec<IN, N> v[UNROLL];
#pragma unroll
          for (int u = 0; u < UNROLL; ++u) {
            if (r + u * ROWS >= end) break;
            rows.find(r + u * ROWS, row);
            v[u] = kf_load<N>(in + row[0]);
          }
          add(run, v, [&](int u) { return r + u * ROWS < end; });
        }
      }
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] = run[j].value();
    }
    // In halves down to LAST threads a column; then a thread has a column of one element. The step between lines keeps its accesses in all banks.
    constexpr int LINE = COLS + (N > 1 ? 32 / N : 0);
    auto keep = [&](int line) {
#pragma unroll
      for (int j = 0; j < N; ++j) shared[(line * N + j) * LINE + x] = sum[j];
    };
#pragma unroll
    for (int half = ROWS / 2; half >= LAST; half /= 2) {
      if (y >= half && y < 2 * half) keep(y);
      __syncthreads();
      if (y < half) {
#pragma unroll
        for (int j = 0; j < N; ++j) sum[j] = Fold()(sum[j], shared[((y + half) * N + j) * LINE + x]);
      }
    }
    if (y < LAST) keep(y);
    __syncthreads();
    for (int c = threadIdx.x; c < COLS * N; c += THREADS) {
      const INDEX o = block * (COLS * N) + c;
      if (o >= all * N) break;
      kf_vec<C, LAST> last;
#pragma unroll
      for (int l = 0; l < LAST; ++l) last[l] = shared[(l * N + c % N) * LINE + c / N];
#if PARTS > 1
      parts[o * PARTS + part] = folded(last);
#else
      INDEX at[2];
      elements.find(o, at);
      out[at[OUTPUT]] = finish(folded(last), outputs, numel);
#endif
    }
    __syncthreads();
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
  __shared__ C shared[THREADS / COLS * (COLS * VEC + 32)];
#if PARTS == 1
  C* parts = nullptr;
#endif
  if (VEC > 1 && aligned_tensor<VEC>(self)) columns<VEC>(shared, self, out, parts, vectors, elements, row_elements, length, outputs, numel);
  else if constexpr (VEC == 1 || SHIFTED) columns<1>(shared, self, out, parts, elements, elements, row_elements, length, outputs, numel);
}

// @include join.cuh
