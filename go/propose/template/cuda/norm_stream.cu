// Layer, group or (RMS) root-mean-square norm of short and middling rows: teams of threads that stay, and take one row after the other.
//
// Idea: a team asks for its next row before it works on the one it has, so bytes are always on their way, also while sums go from thread to thread and
// while results are written; weights stay in the first cache. Bound: copy of the bytes.
// Works for: rows of at most 32 elements a thread; weight and bias of any floating type or absent. A group of a group norm is a row.
// Parameters the tree may change: TEAM (threads of a row: part of a warp, or a block), VEC (elements of an access), ONCE (outputs do not stay in the
// L2), WAVES (times the blocks that fit).
// Numerics: as norm_warps.

// @include rows.cuh

// @include affine.cuh

// @include norm_statistics.cuh

using Words = kf_words<IN, VEC>;  // the next row, packed
KF_INLINE Words::word fetch(const IN* p, bool aligned) {
  Words v;
  if (!SHIFTED || aligned) return *(const Words::word*)p;
#pragma unroll
  for (int e = 0; e < VEC; ++e) v.vec[e] = p[e];
  return v.words[0];
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  constexpr int ROWS = THREADS / TEAM;
  const int t = threadIdx.x % TEAM, n = row_length(length);
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out) && aligned_parameter(weight) && aligned_parameter(bias);
  const INDEX step = INDEX(gridDim.x) * ROWS;
  INDEX row = INDEX(blockIdx.x) * ROWS + INDEX(threadIdx.x / TEAM);
  Words::word ahead[ITEMS];
  auto ask = [&] {
    if (row >= rows) return;
    int64_t from = 0;
    [[maybe_unused]] INDEX rest = row;
// @offset
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if ((i * TEAM + t) * VEC < n) ahead[i] = fetch(x + from + (i * TEAM + t) * VEC, aligned);
  };
  auto write_row = [&](INDEX row, A mean, A rstd, const kf_vec<A, VEC> (&v)[ITEMS]) {
    T* o = out + int64_t(row) * n;
    if (t == 0) {
      if constexpr (!RMS) mean_out[row] = kf_to<STAT>(mean);
      rstd_out[row] = kf_to<STAT>(rstd);
    }
// @channel
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int at = (i * TEAM + t) * VEC;
      if (at >= n) break;
      put<VEC, ONCE>(o + at, normed<false>(v[i], mean, rstd, weight, bias, at, first, area, aligned), aligned);
    }
  };
  ask();
  int turn = 0;
  for (INDEX base = INDEX(blockIdx.x) * ROWS; base < rows; base += step) {  // as often in all threads of a block
    const bool valid = row < rows;
    kf_vec<A, VEC> v[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      Words w;
      w.words[0] = ahead[i];
      v[i] = valid && (i * TEAM + t) * VEC < n ? widened(w.vec) : all_of<VEC>(A(0));
    }
    const INDEX mine = row;
    row += step;
    ask();
    const auto [mean, rstd] = statistics(v, t, n, eps, turn);
    turn ^= 1;
    if (valid) write_row(mine, mean, rstd, v);
  }
}
