// Softmax or (LOG) log-softmax along a dim that is not the innermost: vectors across columns walk down it.
//
// Idea: UNROLL vectors of neighbouring columns go down the dim three times: maximum; exponentials and their sum; scaling. KEEP writes the
// exponentials down in float (into the output, or for half types into a buffer of LENGTH vectors). Bound: copy of the bytes.
// Works for: contiguous tensors seen as outer x dim x inner.
// Parameters the tree may change: UNROLL (vectors side by side), KEEP, KF_LANES, GRAIN.
// Numerics: as softmax_rows; the sum goes down the dim in order.

using A = kf_acc<IN>;
using V = kf_v<A>;
constexpr int L = kf_lanes<A>;
constexpr bool HOLD = KEEP && !LOG;                    // exponentials are written down
constexpr bool IN_PLACE = HOLD && __is_same(OUT, A);  // in the output itself

template <class T> KF_INLINE V load(const T* p, int n) { return n == L ? kf_load(p) : kf_load_n(p, n); }
template <class T> KF_INLINE void store(T* p, V v, int n) { if (n == L) kf_store(p, v); else kf_store_n(p, v, n); }

// U vectors of columns at x and out, n lanes of each, with rows `inner` apart.
template <int U> KF_INLINE void columns(const IN* x, OUT* out, int64_t D, int64_t inner, int n, V* buffer) {
  V most[U], sum[U], last[U];
  for (int u = 0; u < U; ++u) most[u] = V{} - A(__builtin_inff()), sum[u] = V{};
  for (int64_t d = 0; d < D; ++d)
    for (int u = 0; u < U; ++u) {
      V v = load(x + d * inner + u * L, n);
      most[u] = v > most[u] ? v : most[u];
    }
  for (int64_t d = 0; d < D; ++d)
    for (int u = 0; u < U; ++u) {
      V e = kf_exp(load(x + d * inner + u * L, n) - most[u]);
      sum[u] += e;
      if constexpr (IN_PLACE) store((A*)out + d * inner + u * L, e, n); else if (HOLD) buffer[d * U + u] = e;
    }
  for (int u = 0; u < U; ++u) last[u] = LOG ? kf_log(sum[u]) : A(1) / sum[u];
  for (int64_t d = 0; d < D; ++d)
    for (int u = 0; u < U; ++u) {
      const int64_t at = d * inner + u * L;
      V y;
      if constexpr (LOG) y = load(x + at, n) - most[u] - last[u];
      else if constexpr (IN_PLACE) y = load((A*)out + at, n) * last[u];
      else if constexpr (HOLD) y = buffer[d * U + u] * last[u];
      else y = kf_exp(load(x + at, n) - most[u]) * last[u];
      store(out + at, y, n);
    }
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t D = a[2].i, inner = a[3].i, across = (inner + UNROLL * L - 1) / (UNROLL * L);
  V buffer[HOLD && !IN_PLACE ? LENGTH * UNROLL : 1];
  for (int64_t i = begin; i < end; ++i) {
    int64_t c = i % across * (UNROLL * L);
    const IN* x = (const IN*)a[0].p + i / across * D * inner;
    OUT* out = (OUT*)a[1].p + i / across * D * inner;
    if (c + UNROLL * L <= inner) {
      columns<UNROLL>(x + c, out + c, D, inner, L, buffer);
      continue;
    }
    for (; c + L <= inner; c += L) columns<1>(x + c, out + c, D, inner, L, buffer);
    if (c < inner) columns<1>(x + c, out + c, D, inner, int(inner - c), buffer);
  }
}
