// The moments of N elements, a power of two; of a root mean square only the squares. SPREADS: an infinity makes all of them NaN.
template <int N> KF_INLINE Moments sums_of(const A* v) {
  if constexpr (!RMS) return moments_of<N>(v);
  A squares[N], rest = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) squares[i] = v[i] * v[i];
  const A sum = total<N>(squares);
  if constexpr (SPREADS)
    if (!(sum - sum == 0)) {
#pragma unroll
      for (int i = 0; i < N; ++i) rest += v[i] - v[i];  // NaN where an element is infinite
    }
  return {A(N), 0, sum + rest};
}
