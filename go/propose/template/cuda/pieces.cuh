// @include words.cuh

// A piece of a row that stays on the chip. ODD: rows are not whole vectors; vectors then begin at a row's first element of which the address fits,
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

// A number that is a constant.
template <int N> struct Together { static constexpr int count = N; };
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
