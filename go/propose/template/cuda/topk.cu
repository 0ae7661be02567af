// Topk: the K largest (or smallest) elements along a dim, best first, with their places.
//
// Idea: a warp keeps the best so far as a sorted list, one place a lane. A row is read in pieces, as integers that order like its elements and lie in
// registers: each lane knows its best, one reduction finds the warp's, a vote says where in the list it belongs, and its owner alone looks for the
// next. A piece is done when its best is no better than the list's last, so long rows cost little more than their reading. Rows that are few and long are
// shared by WARPS warps, whose lists the first one joins. Bound: one read of the input.
// Works for: K up to 128, floating point, any strides; where rows are not whole vectors, VEC is 1.
// Parameters the tree may change: VEC and LOADS (elements of a lane in a piece: VEC * LOADS), WARPS (of a row).
// Numerics: values are moved. NaN is larger than infinity, as eager has it; zeros lie by their sign, which eager leaves open, and equal elements as
// they are found, the same on every run.

// @include walk.cuh

constexpr int EACH = VEC * LOADS, PIECE = 32 * EACH, SLOTS = (K + 31) / 32, ROWS = THREADS / (32 * WARPS);

KF_INLINE uint32_t bits_of(float x) { return __float_as_uint(x); }
KF_INLINE uint64_t bits_of(double x) { return uint64_t(__double_as_longlong(x)); }
KF_INLINE float number_of(uint32_t bits) { return __uint_as_float(bits); }
KF_INLINE double number_of(uint64_t bits) { return __longlong_as_double((long long)bits); }
using Key = decltype(bits_of(kf_acc<IN>(0)));
constexpr Key TOP = Key(1) << (8 * sizeof(Key) - 1);

// An element as an integer that is larger where the element is better; 0 is worse than any element. NaN is next to the largest integer, so that it has
// a place before the end where order is turned.
KF_INLINE Key key_of(IN element) {
  const auto x = kf_of(element);
  Key bits = bits_of(x);
  bits = x != x ? ~Key(0) - 1 : bits & TOP ? ~bits : bits | TOP;
  return LARGEST ? bits : ~bits;
}
KF_INLINE IN element_of(Key key) {
  const Key bits = LARGEST ? key : ~key;
  return kf_to<IN>(number_of(bits & TOP ? bits & ~TOP : ~bits));
}

KF_INLINE uint32_t best_of_warp(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, x);
#else
  return kf_warp_fold(x, kf_max_of());
#endif
}
KF_INLINE uint64_t best_of_warp(uint64_t x) {
  const uint32_t high = best_of_warp(uint32_t(x >> 32));
  return uint64_t(high) << 32 | best_of_warp(uint32_t(x >> 32) == high ? uint32_t(x) : 0u);
}

// The best so far, in order: place 32 * s + lane is slot s of a lane. All lanes come to every call.
struct List {
  Key key[SLOTS];
  INDEX place[SLOTS];

  KF_INLINE Key last() const { return kf_shuffle(key[(K - 1) / 32], (K - 1) % 32); }
  KF_INLINE void insert(Key x, INDEX from, int lane) {
    int at = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) at += __popc(__ballot_sync(0xffffffffu, key[s] >= x));
#pragma unroll
    for (int s = SLOTS - 1; s >= 0; --s) {
      Key above = kf_shuffle_up(key[s], 1);
      INDEX its = kf_shuffle_up(place[s], 1);
      if (s > 0) {
        const Key edge = kf_shuffle(key[s > 0 ? s - 1 : 0], 31);
        const INDEX edges = kf_shuffle(place[s > 0 ? s - 1 : 0], 31);
        if (lane == 0) above = edge, its = edges;
      }
      const int mine = 32 * s + lane;
      if (mine >= at) key[s] = mine == at ? x : above, place[s] = mine == at ? from : its;
    }
  }
  // Takes what is better than the list's last of the keys of all lanes, which it uses up; where(i) is the place of a lane's key i.
  template <int N, class Where> KF_INLINE void take(Key (&keys)[N], Where where, int lane) {
    Key mine = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) mine = keys[i] > mine ? keys[i] : mine;
    for (;;) {
      const Key best = best_of_warp(mine);
      if (best <= last()) break;
      const int owner = __ffs(__ballot_sync(0xffffffffu, mine == best)) - 1;
      INDEX from = 0;
      if (lane == owner) {
        bool found = false;
        mine = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          if (!found && keys[i] == best) {
            found = true;
            keys[i] = 0;
            from = where(i);
          }
          mine = keys[i] > mine ? keys[i] : mine;
        }
      }
      insert(best, kf_shuffle(from, owner), lane);
    }
  }
};

// The warp's pieces of a row, in vectors of N elements that lie `along` apart.
template <int N> KF_INLINE void read(List& list, const IN* row, INDEX along, INDEX length, int warp, int lane) {
  for (INDEX begin = INDEX(warp) * PIECE; begin < length; begin += WARPS * PIECE) {
    const INDEX first = begin + lane * N;
    kf_vec<IN, N> v[EACH / N];
    Key keys[EACH];
#pragma unroll
    for (int u = 0; u < EACH / N; ++u)
      if (first + u * 32 * N < length) v[u] = kf_load<N>(row + (first + u * 32 * N) * (N > 1 ? 1 : along));
#pragma unroll
    for (int i = 0; i < EACH; ++i) keys[i] = first + i / N * 32 * N < length ? key_of(v[i / N][i % N]) : Key(0);
    list.take(keys, [=](int i) { return first + INDEX(i / N * 32 * N + i % N); }, lane);
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS, mine = threadIdx.x / (32 * WARPS);
  const INDEX row = INDEX(blockIdx.x) * ROWS + mine;
  INDEX at[3] = {};
  List list;
#pragma unroll
  for (int s = 0; s < SLOTS; ++s) list.key[s] = 0, list.place[s] = 0;
  if (row < rows) {
    elements.find(row, at);
    if (VEC > 1 && aligned_tensor<VEC>(self)) read<VEC>(list, self + at[2], along, length, warp, lane);
    else if constexpr (VEC == 1 || SHIFTED) read<1>(list, self + at[2], along, length, warp, lane);
  }
#if WARPS > 1
  __shared__ Key keys[THREADS / 32][K];
  __shared__ INDEX places[THREADS / 32][K];
#pragma unroll
  for (int s = 0; s < SLOTS; ++s)
    if (32 * s + lane < K) keys[threadIdx.x / 32][32 * s + lane] = list.key[s], places[threadIdx.x / 32][32 * s + lane] = list.place[s];
  __syncthreads();
  if (warp > 0 || row >= rows) return;
  for (int other = mine * WARPS + 1; other < (mine + 1) * WARPS; ++other) {
    Key found[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) found[s] = 32 * s + lane < K ? keys[other][32 * s + lane] : Key(0);
    list.take(found, [&](int i) { return places[other][32 * i + lane]; }, lane);
  }
#endif
  if (row < rows) {
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
      const INDEX i = 32 * s + lane;
      if (i < K) {
        values[at[0] + i * values_along] = element_of(list.key[s]);
        indices[at[1] + i * indices_along] = list.place[s];
      }
    }
  }
}
