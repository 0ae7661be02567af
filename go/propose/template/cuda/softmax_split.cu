// Softmax or (LOG) log-softmax along long contiguous rows: several blocks share one.
//
// Idea: kf_gather takes the maximum and the sum of exponentials below it of a piece of a row for each block; in kf_main every block joins its
// row's pieces, then writes a piece. It goes through the rows backwards, so that what was read last is still in the L2; TURNS do it for some of the
// rows after each other, so that the L2 holds all of a turn.
// Bound: one more reading than a copy, less by the L2.
// Works for: rows of any length.
// Parameters the tree may change: THREADS, UNROLL (vectors in flight), WAVES (blocks a multiprocessor), TURNS, ONCE (outputs do not stay in the
// L2), VEC (elements of an access).
// Numerics: as softmax_warps; sums of pieces are scaled to the common maximum when they are joined.

// @include rows.cuh

// @include softmax.cuh

template <int U> KF_INLINE Part batch(const IN* p, bool aligned) {
  kf_vec<A, VEC> v[U];
#pragma unroll
  for (int u = 0; u < U; ++u) v[u] = get<VEC>(p + int64_t(u) * (THREADS * VEC), aligned);
  A most = v[0][0], sum[U];
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int e = 0; e < VEC; ++e) most = most_of(most, v[u][e]);
  const A base = base_of(most);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    A part[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) part[e] = power(v[u][e] - base);
    sum[u] = total<VEC>(part);
  }
  return {most, total<U>(sum)};
}
// The part of a row that a block works on: vectors from `data` on. ODD: rows are not whole vectors, so those of a row begin at its first element of
// which the address fits; the elements before and behind them go to the first and the last block of the row.
struct Piece { int64_t data; int from, to, head, tail; };
KF_INLINE Piece piece_of(int64_t block, int64_t first_row, int pieces, int length) {
  const int64_t row = block / pieces, start = (first_row + row) * length;
  const int index = int(block - row * pieces), head = ODD ? kf_least(int(-start & (VEC - 1)), length) : 0, vectors = (length - head) / VEC;
  const int step = (vectors + pieces - 1) / pieces, from = kf_least(index * step, vectors);
  Piece p = {start + head, from, kf_least(from + step, vectors), 0, 0};
  if (ODD && index == 0) p.head = head;
  if (ODD && index == pieces - 1) p.tail = length - head - vectors * VEC;
  return p;
}
// Calls f(where) for this thread's element before or behind a row's vectors; `end` is the row's end.
template <class F> KF_INLINE void beside(const Piece& p, int64_t end, F f) {
  if constexpr (ODD) {
    const int t = threadIdx.x;
    if (t < p.head) f(p.data - p.head + t);
    if (t >= VEC && t - VEC < p.tail) f(end - p.tail + (t - VEC));
  }
}
KF_INLINE int64_t row_end(int64_t block, int64_t first_row, int pieces, int length) { return (first_row + block / pieces + 1) * length; }

KF_KERNEL(THREADS) void kf_gather(
// @gather
) {
  const Piece piece = piece_of(blockIdx.x, first_row, int(pieces), int(length));
  const IN* p = x + piece.data;
  const bool aligned = aligned_tensor<VEC>(x);
  Part all = nothing();
  int i = piece.from + threadIdx.x;
  for (; i + (UNROLL - 1) * THREADS < piece.to; i += UNROLL * THREADS) all = Join()(all, batch<UNROLL>(p + int64_t(i) * VEC, aligned));
  for (; i < piece.to; i += THREADS) all = Join()(all, batch<1>(p + int64_t(i) * VEC, aligned));
  beside(piece, row_end(blockIdx.x, first_row, int(pieces), int(length)), [&](int64_t at) {
    const A v = kf_of(x[at]);
    all = Join()(all, Part{v, power(v - base_of(v))});
  });
  all = kf_block_fold<THREADS>(all, Join());
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const int64_t block = int64_t(gridDim.x) - 1 - blockIdx.x;
  const Piece piece = piece_of(block, first_row, int(pieces), int(length));
  const IN* p = x + piece.data;
  OUT* o = out + piece.data;
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  int i = piece.from + threadIdx.x;
  auto full = [&] { return i + (UNROLL - 1) * THREADS < piece.to; };
  kf_vec<A, VEC> v[UNROLL];
  auto load = [&] {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = get<VEC>(p + int64_t(i + u * THREADS) * VEC, aligned);
  };
  if (full()) load();  // on their way while the pieces are joined
  Part all = nothing();
  for (int k = threadIdx.x; k < pieces; k += THREADS) all = Join()(all, parts[block / pieces * pieces + k]);
  all = kf_shuffle(kf_block_fold<THREADS>(all, Join()), 0);  // one answer: the two orders of a join differ in the last bit
  const Finish finish(all);
  auto write = [&](int i, kf_vec<A, VEC> v) {
#pragma unroll
    for (int e = 0; e < VEC; ++e) v[e] = finish.of_element(v[e]);
    put<VEC, ONCE>(o + int64_t(i) * VEC, v, aligned);
  };
  while (full()) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) write(i + u * THREADS, v[u]);
    i += UNROLL * THREADS;
    if (full()) load();
  }
  for (; i < piece.to; i += THREADS) write(i, get<VEC>(p + int64_t(i) * VEC, aligned));
  beside(piece, row_end(block, first_row, int(pieces), int(length)), [&](int64_t at) { out[at] = kf_to<OUT>(finish.of_element(kf_of(x[at]))); });
}
