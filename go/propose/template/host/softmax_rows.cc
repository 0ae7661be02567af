// Softmax or (LOG) log-softmax along rows that are contiguous.
//
// Idea: three passes over a row that stays in the first caches: maximum; exponentials and their sum; scaling. KEEP writes the exponentials
// down in float (into the output, or for half types into a buffer of WIDTH), else the last pass computes them again. Bound: copy of the bytes.
// Works for: any number of rows of any length.
// Parameters the tree may change: UNROLL (vectors in flight), KEEP, KF_LANES, GRAIN.
// Numerics: maximum first, so nothing overflows; float arithmetic (double for double). A row with NaN or +infinity, or all -infinity, is NaN,
// since its sum is: the maximum need not see NaN.

using A = kf_acc<IN>;
using V = kf_v<A>;
constexpr int L = kf_lanes<A>;
constexpr bool HOLD = KEEP && !LOG;                    // exponentials are written down
constexpr bool IN_PLACE = HOLD && __is_same(OUT, A);  // in the output itself

// Calls f(column, lanes, which of UNROLL accumulators) for the vectors of a row.
template <class F> KF_INLINE void each(int64_t n, F f) {
  int64_t i = 0;
  for (; i + UNROLL * L <= n; i += UNROLL * L)
    for (int u = 0; u < UNROLL; ++u) f(i + u * L, L, u);
  for (; i + L <= n; i += L) f(i, L, 0);
  if (i < n) f(i, int(n - i), 0);
}
KF_INLINE V head(V v, int n, A rest) {  // lanes from n on become `rest`
  for (int l = 0; l < L; ++l) v[l] = l < n ? v[l] : rest;
  return v;
}
template <class T> KF_INLINE V load(const T* p, int n) { return n == L ? kf_load(p) : kf_load_n(p, n); }
template <class T> KF_INLINE void store(T* p, V v, int n) { if (n == L) kf_store(p, v); else kf_store_n(p, v, n); }

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t D = a[2].i;
  A buffer[HOLD && !IN_PLACE ? WIDTH + L : 1];
  for (int64_t i = begin; i < end; ++i) {
    const IN* x = (const IN*)a[0].p + i * D;
    OUT* out = (OUT*)a[1].p + i * D;
    A* held = IN_PLACE ? (A*)out : buffer;
    V most[UNROLL], sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) most[u] = V{} - A(__builtin_inff()), sum[u] = V{};
    each(D, [&](int64_t c, int n, int u) __attribute__((always_inline)) {
      V v = load(x + c, n);
      if (n < L) v = head(v, n, -A(__builtin_inff()));
      most[u] = v > most[u] ? v : most[u];
    });
    for (int u = 1; u < UNROLL; ++u) most[0] = most[u] > most[0] ? most[u] : most[0];
    const A m = kf_fold(most[0], [](V p, V q) { return p > q ? p : q; });
    each(D, [&](int64_t c, int n, int u) __attribute__((always_inline)) {
      V e = kf_exp(load(x + c, n) - m);
      if (n < L) e = head(e, n, 0);
      if (HOLD) store(held + c, e, n);
      sum[u] += e;
    });
    for (int u = 1; u < UNROLL; ++u) sum[0] += sum[u];
    const A total = kf_hsum(sum[0]), scale = 1 / total, log = LOG ? kf_log(total) : A(0);
    each(D, [&](int64_t c, int n, int) __attribute__((always_inline)) {
      V y;
      if constexpr (LOG) y = load(x + c, n) - m - log;
      else if constexpr (HOLD) y = load(held + c, n) * scale;
      else y = kf_exp(load(x + c, n) - m) * scale;
      store(out + c, y, n);
    });
  }
}
