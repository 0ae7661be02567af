// Cumulative sum along a dim whose elements lie side by side.
//
// Idea: W elements are summed up within a vector by log2(W) shifted additions; what came before is added to all of them. Only that last
// addition waits for the vector before, so the chain is one addition for W elements, not W. Bound: copy of the bytes.
// Works for: any strides (elements that are not side by side are summed one by one). The output may be the input.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), KF_LANES.
// Numerics: eager's accumulator C (double for float, float for half types, integers for integers), rounded once for each element.

// @include walk.h

// @include lines.h

#if WHOLE
KF_INLINE void scan(OUT* out, int64_t to, const IN* in, int64_t from, int64_t n) {
  uint64_t sum = 0;  // integers wrap
  for (int64_t i = 0; i < n; ++i) out[i * to] = OUT(sum += uint64_t(int64_t(in[i * from])));
}
#else
using V = kf_v<C>;
constexpr int W = kf_lanes<C>;

template <class T> KF_INLINE V load(const T* p, int64_t n) {
  if constexpr (__is_same(kf_acc<T>, C)) {
    return n == W ? kf_load(p) : kf_load_n(p, n);
  } else if constexpr (__is_same(T, float)) {
    if (n == W) return __builtin_convertvector(kf_bytes<float __attribute__((vector_size(W * 4)))>(p), V);
  }
  V v = {};
  for (int64_t i = 0; i < n; ++i) v[i] = kf_of(p[i]);
  return v;
}
template <class T> KF_INLINE void store(T* p, V v, int64_t n) {
  if constexpr (__is_same(kf_acc<T>, C)) {
    return n == W ? kf_store(p, v) : kf_store_n(p, v, n);
  } else if (n == W) {
    auto narrow = __builtin_convertvector(v, float __attribute__((vector_size(W * 4))));
    __builtin_memcpy(p, &narrow, sizeof narrow);
  } else {
    for (int64_t i = 0; i < n; ++i) p[i] = kf_to<T>(kf_acc<T>(v[i]));
  }
}
// Lane i of the result is lane i - K; the first K are 0.
template <int K, int... I> KF_INLINE V shifted(V v) { return __builtin_shufflevector(V{}, v, (I < K ? I : W + I - K)...); }
template <int K, int... I> KF_INLINE V summed(V v) {
  v += shifted<K, I...>(v);
  if constexpr (2 * K < W) return summed<2 * K, I...>(v); else return v;
}
#if WIDTH == 16
#define LANE_LIST 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif WIDTH == 8
#define LANE_LIST 0, 1, 2, 3, 4, 5, 6, 7
#elif WIDTH == 4
#define LANE_LIST 0, 1, 2, 3
#else
#define LANE_LIST 0, 1
#endif

KF_INLINE void scan(OUT* out, int64_t to, const IN* in, int64_t from, int64_t n) {
  if (to != 1 || from != 1) {
    C sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += C(kf_of(in[i * from]));
      out[i * to] = kf_to<OUT>(kf_acc<OUT>(sum));
    }
    return;
  }
  V before = {};
  for (int64_t i = 0; i < n; i += W) {
    const int64_t some = n - i < W ? n - i : W;
    const V local = summed<1, LANE_LIST>(load(in + i, some));
    store(out + i, before + local, some);
    before += kf_set<C>(local[W - 1]);
  }
}
#endif

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  each_run(begin, end, args, [](OUT* out, const IN* in, int64_t lines, Step next, int64_t steps, Step along) {
    for (int64_t i = 0; i < lines; ++i) scan(out + i * next.to, along.to, in + i * next.from, along.from, steps);
  });
}
