// Pointwise: one output element from the elements of 1 or 2 operands, floating point, with broadcasting and any strides.
//
// Idea: dims are sorted by the output's strides and joined, so that most calls are one long row. A row is computed UNROLL hardware vectors
// at a time in the arithmetic type C (float for half types); an operand that repeats along the row is read once. Bound: copy of the bytes.
// Works for: any sizes; sizes and strides are arguments, so one binary serves every variant. The output may be exactly an operand.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), UNROLL, KF_LANES, STREAM (stores past the caches,
// for outputs that do not stay there).
// Numerics: the operation below, in C, rounded once to OUT.

// @include walk.h

using V = kf_v<C>;
constexpr int W = kf_lanes<C>;
constexpr bool HALF = sizeof(OUT) == 2;

// Constants of the call, by the bits of their doubles: rounded to the element type first, or not. `stored` is a value's way through memory.
KF_INLINE V stored(V x) { return kf_unpack(kf_pack((OUT*)nullptr, x), (OUT*)nullptr); }
KF_INLINE V exact(uint64_t bits) { return kf_set<C>(C(kf_cast_bits<double>(bits))); }
KF_INLINE V rounded(uint64_t bits) { return stored(exact(bits)); }

// @operation

template <int K> struct Operand { using T = IN0; };
#if ARITY > 1
template <> struct Operand<1> { using T = IN1; };
#endif
template <int K> KF_INLINE auto* at(const void* const* in, int64_t i) { return (const typename Operand<K>::T*)in[K] + i; }

template <class T> KF_INLINE C one(T x) {
  if constexpr (kf_is_float<T>) return C(kf_of(x)); else return C(x);
}
// The n <= W elements at p in C; the other lanes are 0.
template <class T> KF_INLINE V wide(const T* p, int64_t n) {
  if constexpr (__is_same(kf_acc<T>, C) && kf_is_float<T>) {
    return n == W ? kf_load(p) : kf_load_n(p, n);
  } else {
    if constexpr (__is_same(kf_acc<T>, T)) {
      typedef T lanes __attribute__((vector_size(W * sizeof(T))));
      if (n == W) return __builtin_convertvector(kf_bytes<lanes>(p), V);
    }
    V v = {};
    for (int64_t i = 0; i < n; ++i) v[i] = one(p[i]);
    return v;
  }
}

// How an operand meets a row: ROW has bit k where operand k is contiguous; where not, it repeats, or with ROW < 0 has the stride step[k].
template <int K, int ROW> KF_INLINE V take(const void* const* in, const int64_t* step, int64_t i, int64_t n, V repeated) {
  if constexpr (ROW < 0) {
    V v = {};
    for (int64_t j = 0; j < n; ++j) v[j] = one(*at<K>(in, (i + j) * step[1 + K]));
    return v;
  } else {
    return ROW >> K & 1 ? wide(at<K>(in, i), n) : repeated;
  }
}
template <int ROW> KF_INLINE void row(int64_t length, OUT* out, const void* const* in, const int64_t* step) {
  const V a = kf_set<C>(one(*at<0>(in, 0)));
#if ARITY > 1
  const V b = kf_set<C>(one(*at<1>(in, 0)));
#endif
  auto value = [&](int64_t i, int64_t n) __attribute__((always_inline)) {
#if ARITY > 1
    return op(take<0, ROW>(in, step, i, n, a), take<1, ROW>(in, step, i, n, b));
#else
    return op(take<0, ROW>(in, step, i, n, a));
#endif
  };
  int64_t i = 0;
  if constexpr (ROW < 0) {
    for (; i < length; i += W) {
      int64_t n = length - i < W ? length - i : W;
      V v = value(i, n);
      for (int64_t j = 0; j < n; ++j) out[(i + j) * step[0]] = kf_to<OUT>(v[j]);
    }
    return;
  }
  if (STREAM && length >= W) {  // the head up to an aligned address
    i = -uintptr_t(out) % (W * sizeof(OUT)) / sizeof(OUT);
    if (i > 0) kf_store_n(out, value(0, i), i);
  }
  auto put = [&](int64_t j) __attribute__((always_inline)) {
    if (STREAM) kf_stream(out + j, value(j, W)); else kf_store(out + j, value(j, W));
  };
  for (; i + UNROLL * W <= length; i += UNROLL * W)
    for (int u = 0; u < UNROLL; ++u) put(i + u * W);
  for (; i + W <= length; i += W) put(i);
  if (i < length) kf_store_n(out + i, value(i, length - i), length - i);
}

template <int ROW> void rows(int64_t m, int64_t n, const int64_t* offset, const Loop<1 + ARITY>& loop, const kf_arg* args) {
  int64_t step[1 + ARITY];
  for (int k = 0; k <= ARITY; ++k) step[k] = loop.stride[k][loop.dims - 1];
  for (int64_t r = 0; r < m; ++r) {
    const void* in[ARITY] = {(const IN0*)args[1].p + offset[1] + r * loop.next(1)};
#if ARITY > 1
    in[1] = (const IN1*)args[2].p + offset[2] + r * loop.next(2);
#endif
    row<ROW>(n, (OUT*)args[0].p + offset[0] + r * loop.next(0), in, step);
  }
}
template <int ROW> void pick(int shape, int64_t m, int64_t n, const int64_t* offset, const Loop<1 + ARITY>& loop, const kf_arg* args) {
  if (shape == ROW) return rows<ROW>(m, n, offset, loop, args);
  if constexpr (ROW >= 0) pick<ROW - 1>(shape, m, n, offset, loop, args);
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const kf_arg* size = args + 1 + ARITY;  // then the strides of the output and of each operand
  Loop<1 + ARITY> loop;
  for (int d = 0; d < DIMS; ++d) {
    int64_t stride[1 + ARITY];
    for (int k = 0; k <= ARITY; ++k) stride[k] = size[(1 + k) * DIMS + d].i;
    loop.dim(size[d].i, stride);
  }
  loop.join();
  int shape = loop.stride[0][loop.dims - 1] == 1 ? 0 : -1;
  for (int k = 0; k < ARITY; ++k) {
    int64_t step = loop.stride[1 + k][loop.dims - 1];
    shape = shape < 0 || (step != 0 && step != 1) ? -1 : shape | int(step) << k;
  }
  loop.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) { pick<(1 << ARITY) - 1>(shape, m, n, offset, loop, args); });
  if (STREAM) kf_stream_end();
}
