// Reduce short: sum, mean or maximum of short rows that follow one another without gaps and begin anywhere, such as planes of 7 x 7.
//
// Idea: a block takes THREADS rows, which are one run of memory: it brings them to shared memory as vectors, UNROLL of them in flight, and then
// each thread folds a row from there. Bound: one read of the input.
// Works for: rows of at most LONGEST elements in one run; outputs side by side.
// Parameters the tree may change: VEC, THREADS, UNROLL.
// Numerics: in C, eight elements at a time, pairwise, in a run that keeps what it rounds off; a NaN makes the maximum NaN.

// @include fold.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  alignas(16) __shared__ IN rows[THREADS * LONGEST];
  for (INDEX first = INDEX(blockIdx.x) * THREADS; first < outputs; first += INDEX(gridDim.x) * THREADS) {
    const INDEX mine = outputs - first < THREADS ? outputs - first : THREADS, count = mine * length;
    const IN* from = self + first * length;
    INDEX done = 0;
    if (kf_aligned<VEC>(from)) {
      const INDEX whole = count / VEC;
      for (INDEX i = threadIdx.x; i < whole; i += THREADS * UNROLL) {
        kf_vec<IN, VEC> v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
          if (i + u * THREADS < whole) v[u] = kf_load<VEC>(from + (i + u * THREADS) * VEC);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
          if (i + u * THREADS < whole) kf_store(rows + (i + u * THREADS) * VEC, v[u]);
      }
      done = whole * VEC;
    }
    for (INDEX i = done + INDEX(threadIdx.x); i < count; i += THREADS) rows[i] = from[i];
    __syncthreads();
    if (INDEX(threadIdx.x) < mine) {
      const IN* row = rows + INDEX(threadIdx.x) * length;
      Run run;
      INDEX i = 0;
      for (; i + 8 <= length; i += 8) {
        kf_vec<C, 8> v;
#pragma unroll
        for (int j = 0; j < 8; ++j) v[j] = C(kf_of(row[i + j]));
        run.add(folded(v));
      }
      C rest = start();
      for (; i < length; ++i) rest = Fold()(rest, C(kf_of(row[i])));
      out[first + INDEX(threadIdx.x)] = finish(Fold()(run.value(), rest), outputs, numel);
    }
    __syncthreads();
  }
}
