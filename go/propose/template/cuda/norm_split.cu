// Layer, group or (RMS) root-mean-square norm of long rows: several blocks share one.
//
// Idea: kf_gather takes the moments of a piece of a row for each block; in kf_main every block joins its row's pieces, then writes a piece.
// It goes through the rows backwards, so that what was read last is still in the L2; TURNS do it for some of the rows after each other, so that
// the L2 holds all of a turn. Bound: one more reading than a copy, less by the L2.
// Works for: contiguous rows of any length; weight and bias of any floating type or absent. A group of a group norm is a row.
// Parameters the tree may change: THREADS, UNROLL (vectors in flight), WAVES (blocks a multiprocessor), TURNS, ONCE (outputs do not stay in the
// L2), VEC (elements of an access).
// Numerics: float (double for double). Moments of UNROLL vectors about their own mean, then joined; (x - mean) * rstd * weight + bias.
// SPREADS: as norm_warps.

// @include rows.cuh

// @include affine.cuh

// @include moments.cuh

// @include moments_batch.cuh

template <int U> KF_INLINE Moments batch(const T* p, bool aligned) {
  A v[U * VEC];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const kf_vec<A, VEC> w = get<VEC>(p + int64_t(u) * (THREADS * VEC), aligned);
#pragma unroll
    for (int e = 0; e < VEC; ++e) v[u * VEC + e] = w[e];
  }
  return sums_of<U * VEC>(v);
}
// The part of a row that a block works on, in vectors.
struct Piece { int64_t row; int index, from, to; };
KF_INLINE Piece piece_of(int64_t block, int pieces, int vectors) {
  const int64_t row = block / pieces;
  const int index = int(block - row * pieces), step = (vectors + pieces - 1) / pieces, from = kf_least(index * step, vectors);
  return {row, index, from, kf_least(from + step, vectors)};
}

KF_KERNEL(THREADS) void kf_gather(
// @gather
) {
  const Piece piece = piece_of(blockIdx.x, pieces, length / VEC);
  const T* p = x + (first_row + piece.row) * length;
  const bool aligned = aligned_tensor<VEC>(x);
  Moments m = {0, 0, 0};
  int i = piece.from + threadIdx.x;
  for (; i + (UNROLL - 1) * THREADS < piece.to; i += UNROLL * THREADS) m = Join()(m, batch<UNROLL>(p + int64_t(i) * VEC, aligned));
  for (; i < piece.to; i += THREADS) m = Join()(m, batch<1>(p + int64_t(i) * VEC, aligned));
  m = joined<THREADS>(m);
  if (threadIdx.x == 0) parts[blockIdx.x] = m;
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const Piece piece = piece_of(int64_t(gridDim.x) - 1 - blockIdx.x, pieces, length / VEC);
  const INDEX row = first_row + INDEX(piece.row);
  const T* p = x + int64_t(row) * length;
  T* o = out + int64_t(row) * length;
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out) && aligned_parameter(weight) && aligned_parameter(bias);
  int i = piece.from + threadIdx.x;
  auto full = [&] { return i + (UNROLL - 1) * THREADS < piece.to; };
  kf_vec<A, VEC> v[UNROLL];
  auto load = [&] {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = get<VEC>(p + (i + u * THREADS) * VEC, aligned);
  };
  if (full()) load();  // on their way while the pieces are joined
  Moments m = {0, 0, 0};
  for (int k = threadIdx.x; k < pieces; k += THREADS) m = Join()(m, parts[piece.row * pieces + k]);
  m = joined<THREADS>(m);
  const A mean = m.mean, rstd = rstd_of(m, A(length), eps);
  if (piece.index == 0 && threadIdx.x == 0) {
    if constexpr (!RMS) mean_out[row] = kf_to<STAT>(mean);
    rstd_out[row] = kf_to<STAT>(rstd);
  }
// @channel
  auto finish = [&](int at, const kf_vec<A, VEC>& v) {
    put<VEC, ONCE>(o + at, normed<false>(v, mean, rstd, weight, bias, at, first, area, aligned), aligned);
  };
  while (full()) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) finish((i + u * THREADS) * VEC, v[u]);
    i += UNROLL * THREADS;
    if (full()) load();
  }
  for (; i < piece.to; i += THREADS) finish(i * VEC, get<VEC>(p + i * VEC, aligned));
}
