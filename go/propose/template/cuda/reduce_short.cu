// Reduce short: sum, mean or maximum of short rows that follow one another without gaps and begin anywhere, such as planes of 7 x 7.
//
// Idea: a block takes ROWS rows, which are one run of memory: it brings them to shared memory as vectors, UNROLL a thread in flight, which are all of them
// where TEAM is large enough, and then TEAM threads fold a row from there. Bound: one read of the input.
// Works for: rows of at most LONGEST elements in one run, SAME: of so many all; outputs side by side.
// Parameters the tree may change: VEC, ROWS, TEAM (threads of a row), UNROLL.
// Numerics: in C, eight elements at a time, pairwise, in a run that keeps what it rounds off; those of the threads of a row are joined in pairs. A NaN
// makes the maximum NaN.

// @include fold.cuh

constexpr int THREADS = ROWS * TEAM;

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  alignas(16) __shared__ IN rows[ROWS * LONGEST];
  const INDEX each = SAME ? LONGEST : length, first = INDEX(blockIdx.x) * ROWS, mine = outputs - first < ROWS ? outputs - first : ROWS, count = mine * each;
  const IN* from = self + first * each;
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
  const INDEX at = threadIdx.x / TEAM;
  C x = start();
  if (at < mine) {
    const IN* row = rows + at * each;
    Run run;
    INDEX i = threadIdx.x % TEAM;
    for (; i + 7 * TEAM < each; i += 8 * TEAM) {
      kf_vec<C, 8> v;
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = C(kf_of(row[i + j * TEAM]));
      run.add(folded(v));
    }
    for (; i < each; i += TEAM) x = Fold()(x, C(kf_of(row[i])));
    x = Fold()(run.value(), x);
  }
  x = kf_warp_fold<TEAM>(x, Fold());
  if (at < mine && threadIdx.x % TEAM == 0) out[first + at] = finish(x, outputs, numel);
}
