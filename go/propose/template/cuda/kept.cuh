// @include words.cuh

// A piece of a row that stays on the chip: each thread keeps its own vectors, 16 bytes as they came, the first ITEMS in registers and the others in slots of
// shared memory, where no other thread looks. ODD: rows are not whole vectors; vectors then begin at a row's first element of which the address fits,
// and the elements before and behind them are one each of some threads' of the first and the last piece.
extern __shared__ uint4 slots[];
constexpr int LINE = 128 / 16;  // vectors: pieces begin at whole lines
constexpr int BATCH = 4;        // vectors whose elements are summed up together

struct Piece {
  int64_t data;  // of the tensor: the piece's first element
  int first;     // of the row: the same
  int count;     // vectors
  int spare;     // of the row: this thread's single element, or -1
};
KF_INLINE Piece piece_of(int64_t row, int index, int pieces, int length) {
  const int64_t start = row * length;
  const int head = ODD ? kf_least(int(-start & (VEC - 1)), length) : 0, vectors = (length - head) / VEC, t = threadIdx.x;
  const int step = ((vectors + pieces - 1) / pieces + LINE - 1) / LINE * LINE, from = kf_least(index * step, vectors);
  Piece p = {start + head + int64_t(from) * VEC, head + from * VEC, kf_least(step, vectors - from), -1};
  if constexpr (ODD) {
    const int tail = length - head - vectors * VEC;
    if (index == 0 && t < head) p.spare = t;
    if (index == pieces - 1 && t >= VEC && t - VEC < tail) p.spare = length - tail + (t - VEC);
  }
  return p;
}
KF_INLINE uint4& slot(int s) { return slots[s * THREADS + threadIdx.x]; }

// Calls f(s, together) for this thread's vectors in slots, of a piece of `count`: UNROLL or BATCH of them from slot s on, then one by one. Their
// number is together.count, a constant.
template <int N> struct Together { static constexpr int count = N; };
template <class F> KF_INLINE void slots_of(int count, F f) {
  const int mine = (count - int(threadIdx.x) + THREADS - 1) / THREADS - ITEMS;  // vectors of this thread in slots
  int s = 0;
  for (; s + UNROLL <= mine; s += UNROLL) f(s, Together<UNROLL>());
  if constexpr (UNROLL > BATCH)
    if (s + BATCH <= mine) f(s, Together<BATCH>()), s += BATCH;
  for (; s < mine; ++s) f(s, Together<1>());
}
// The sums of N vectors, BATCH at a time.
template <int N, class Sum, class Fold> KF_INLINE void add(Sum& all, const uint4* v, Fold fold) {
  if constexpr (N > BATCH) {
    add<N - BATCH>(all, v, fold);
    add<BATCH>(all, v + N - BATCH, fold);
  } else {
    A a[N * VEC];
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const kf_vec<A, VEC> w = elements_of(v[u]);
#pragma unroll
      for (int e = 0; e < VEC; ++e) a[u * VEC + e] = w[e];
    }
    all = fold(all, sums_of<N * VEC>(a));
  }
}
// What registers keep, added up.
template <class Sum, class Fold> KF_INLINE Sum add_kept(const Piece& piece, const uint4 (&kept)[ITEMS], Fold fold, Sum all) {
  const int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < ITEMS; i += BATCH) {
    if ((i + BATCH - 1) * THREADS + t < piece.count) {
      add<BATCH>(all, kept + i, fold);
    } else {
#pragma unroll
      for (int u = 0; u < BATCH; ++u)
        if ((i + u) * THREADS + t < piece.count) add<1>(all, kept + i + u, fold);
    }
  }
  return all;
}
// Reads a piece: what goes to registers first, all of it on its way while the slots are filled.
template <class Sum, class Fold> KF_INLINE Sum read_piece(const Piece& piece, const IN* x, bool aligned, uint4 (&kept)[ITEMS], Fold fold, Sum all) {
  const IN* p = x + piece.data;
  const int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i * THREADS + t < piece.count) kept[i] = fetch(vector_at(p, i * THREADS + t), aligned);
  slots_of(piece.count, [&](int s, auto together) {
    constexpr int N = decltype(together)::count;
    uint4 v[N];
#pragma unroll
    for (int u = 0; u < N; ++u) v[u] = fetch(vector_at(p, (ITEMS + s + u) * THREADS + t), aligned);
#pragma unroll
    for (int u = 0; u < N; ++u) slot(s + u) = v[u];
    add<N>(all, v, fold);
  });
  return add_kept(piece, kept, fold, all);
}
