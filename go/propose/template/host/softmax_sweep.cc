// Softmax or (LOG) log-softmax along a dim that is not the innermost: two passes over whole rows of many columns.
//
// Idea: where rows are pages apart, a narrow block of columns finds its lines in the same few sets of the second cache, so that walking down
// it three times is three times to memory (softmax_columns). Here WIDE vectors of neighbouring columns go down together, ROWS rows at a time:
// the first pass keeps each column's maximum and the sum of exponentials below it, and scales the sum where the maximum grows; the second
// takes the exponentials again. Both read rows as they lie, AHEAD rows are asked for early. Bound: two reads and one write of the bytes,
// and two exponentials an element.
// Works for: contiguous tensors seen as outer x dim x inner. Best where a column's rows do not stay in the cache.
// Parameters the tree may change: WIDE, ROWS, AHEAD, STREAM (stores past the caches, where rows are aligned), KF_LANES, GRAIN.
// Numerics: as softmax_columns, but for a rounding of the sum whenever a maximum grows; ROWS exponentials are added up in pairs, and what their
// sum rounds off is kept: a plain sum of 2,048 was 11 roundings off where eager's was one.

using A = kf_acc<IN>;
using V = kf_v<A>;
constexpr int L = kf_lanes<A>;

template <class T> KF_INLINE V load(const T* p, int n) { return n == L ? kf_load(p) : kf_load_n(p, n); }
KF_INLINE void put(OUT* p, V v, int n) {
  if (n < L) kf_store_n(p, v, n);
  else if (STREAM && uintptr_t(p) % (L * sizeof(OUT)) == 0) kf_stream(p, v);
  else kf_store(p, v);
}
// The column sums of a vector so far: below `most`, in `high` + `low`, which keeps what additions to `high` round off.
struct Sum { V most, high, low; };
// R rows more of n columns at x. A column without anything above -inf so far counts from 0: exp(-inf - -inf) would be NaN.
template <int R> KF_INLINE void fold(const IN* x, int64_t inner, int n, Sum& sum) {
  V v[R], most = sum.most;
  for (int r = 0; r < R; ++r) v[r] = load(x + r * inner, n);
  for (int r = 0; r < R; ++r) most = v[r] > most ? v[r] : most;
  const V none = V{} - A(__builtin_inff()), base = most > none ? most : V{};
  const V shrink = kf_exp((sum.most > none ? sum.most : base) - base);
  for (int r = 0; r < R; ++r) v[r] = kf_exp(v[r] - base);
  for (int step = 1; step < R; step *= 2)
    for (int r = 0; r < R; r += 2 * step) v[r] += v[r + step];
  const V high = sum.high * shrink, term = kf_fma(sum.low, shrink, v[0]);
  sum.most = most;
  sum.high = high + term;
  sum.low = term - (sum.high - high);
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t D = a[2].i, inner = a[3].i, across = (inner + L - 1) / L;
  Sum sum[WIDE];
  for (int64_t i = begin; i < end;) {
    const int64_t first = i % across, left = across - first < end - i ? across - first : end - i, m = left < WIDE ? left : WIDE;
    const int64_t at = i / across * D * inner + first * L, beyond = (first + m) * L - inner;
    const int tail = beyond > 0 ? int(L - beyond) : L;  // lanes of the last vector
    const IN* x = (const IN*)a[0].p + at;
    OUT* out = (OUT*)a[1].p + at;
    i += m;
    for (int64_t k = 0; k < m; ++k) sum[k] = {V{} - A(__builtin_inff()), V{}, V{}};
    int64_t d = 0;
    for (; d + ROWS <= D; d += ROWS, x += ROWS * inner) {
      for (int64_t k = 0; k < m - (tail < L); ++k) {
        if (AHEAD) for (int r = 0; r < ROWS; ++r) __builtin_prefetch(x + (r + AHEAD) * inner + k * L);
        fold<ROWS>(x + k * L, inner, L, sum[k]);
      }
      if (tail < L) fold<ROWS>(x + (m - 1) * L, inner, tail, sum[m - 1]);
    }
    for (; d < D; ++d, x += inner)
      for (int64_t k = 0; k < m; ++k) fold<1>(x + k * L, inner, k < m - 1 ? L : tail, sum[k]);
    for (int64_t k = 0; k < m; ++k) sum[k].high = LOG ? kf_log(sum[k].high) : A(1) / sum[k].high;
    x -= D * inner;
    for (d = 0; d < D; ++d, x += inner, out += inner) {
      auto finish = [&](int64_t k, int n) __attribute__((always_inline)) {
        const V v = load(x + k * L, n) - sum[k].most;
        if constexpr (LOG) put(out + k * L, v - sum[k].high, n); else put(out + k * L, kf_exp(v) * sum[k].high, n);
      };
      for (int64_t k = 0; k < m - (tail < L); ++k) {
        if (AHEAD) __builtin_prefetch(x + AHEAD * inner + k * L);
        finish(k, L);
      }
      if (tail < L) finish(m - 1, tail);
    }
  }
  if (STREAM) kf_stream_end();
}
