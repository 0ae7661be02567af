// Rows folded across windows: the best element of N outputs beside each other, and where it is. Windows roll down: KEPT of a window's rows are those that the
// next one below begins with.
constexpr int KEPT = KH > SH ? KH - SH : 0, NEW = KH - KEPT;
template <int N> struct Line {
  kf_vec<A, N> best;
  int where[N];
  KF_INLINE void clear() {
#pragma unroll
    for (int e = 0; e < N; ++e) best[e] = -kf_infinity<A>(), where[e] = 0;
  }
  // NaN wins and the last one stays; else the first of equal ones.
  KF_INLINE void take(int e, A value, int at) {
    if (value > best[e] || value != value) best[e] = value, where[e] = at;
  }
  KF_INLINE void join(const Line& below) {
#pragma unroll
    for (int e = 0; e < N; ++e) take(e, below.best[e], below.where[e]);
  }
};
// The window of kept and new rows, on top of what `all` has; then the rows that the next one has too become the kept ones.
template <int N> KF_INLINE void roll(Line<N>& all, Line<N> (&kept)[KEPT > 0 ? KEPT : 1], const Line<N> (&lines)[NEW]) {
  if constexpr (KEPT > 0) {
#pragma unroll
    for (int j = 0; j < KEPT; ++j) all.join(kept[j]);
  }
#pragma unroll
  for (int j = 0; j < NEW; ++j) all.join(lines[j]);
  if constexpr (KEPT > 0) {
#pragma unroll
    for (int j = 0; j < KEPT; ++j) kept[j] = j + SH < KEPT ? kept[j + SH < KEPT ? j + SH : 0] : lines[j + SH < KEPT ? 0 : j + SH - KEPT];
  }
}
// index: null without INDICES.
template <int N> KF_INLINE void put_line(T* out, int64_t* index, const Line<N>& all, bool aligned) {
  put<N>(out, all.best, aligned);
  if constexpr (INDICES) {
    kf_vec<int64_t, N> wide;
#pragma unroll
    for (int e = 0; e < N; ++e) wide[e] = all.where[e];
    put<N>(index, wide, aligned);
  }
}
