// The mean of a row in registers, then the squares about it.
struct Rest { A off, squares; };  // what is left about the first mean
struct Both { KF_INLINE Rest operator()(Rest a, Rest b) const { return {a.off + b.off, a.squares + b.squares}; } };

template <class X, class Fold> KF_INLINE X team(X x, Fold fold) {
  if constexpr (TEAM <= 32) return kf_warp_fold<TEAM>(x, fold); else return kf_block_fold<TEAM>(x, fold);
}
KF_INLINE bool is_finite(A x) { return x - x == 0; }
// The sum of a team's elements times a factor.
KF_INLINE A sum_of(const kf_vec<A, VEC> (&v)[ITEMS], A factor) {
  A sum[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    A part[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) part[e] = v[i][e] * factor;
    sum[i] = total<VEC>(part);
  }
  return team(total<ITEMS>(sum), kf_sum_of());
}

// Of a team's row of n elements, which lie beyond the others as zeros. All threads of the block come here.
struct Statistics { A mean, rstd; };
KF_INLINE Statistics statistics(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n, A eps) {
  A mean = 0, squares;
  if constexpr (RMS) {
    A sum[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      A squared[VEC];
#pragma unroll
      for (int e = 0; e < VEC; ++e) squared[e] = v[i][e] * v[i][e];
      sum[i] = total<VEC>(squared);
    }
    squares = team(total<ITEMS>(sum), kf_sum_of());
    if constexpr (SPREADS)
      if (__any_sync(0xffffffffu, !is_finite(squares))) {
        A rest = 0;  // NaN where an element is infinite
#pragma unroll
        for (int i = 0; i < ITEMS; ++i)
#pragma unroll
          for (int e = 0; e < VEC; ++e) rest += v[i][e] - v[i][e];
        squares += team(rest, kf_sum_of());
      }
  } else {
    mean = sum_of(v, A(1)) / A(n);
    if (__any_sync(0xffffffffu, !is_finite(mean))) {  // the sum overflowed where the mean need not; always scaling would cost denormals digits
      const A scaled = sum_of(v, A(1) / A(n));
      if (!is_finite(mean)) mean = scaled;
    }
    A off[ITEMS], beside[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      A d[VEC], squared[VEC];
#pragma unroll
      for (int e = 0; e < VEC; ++e) {
        d[e] = (i * TEAM + t) * VEC < n ? v[i][e] - mean : A(0);
        squared[e] = d[e] * d[e];
      }
      off[i] = total<VEC>(d);
      beside[i] = total<VEC>(squared);
    }
    Rest about = {total<ITEMS>(off), total<ITEMS>(beside)};
    about = team(about, Both());
    // The roundings of v - mean share a sign within a binade, so they add up: what is left only helps where the mean is large beside the deviation.
    if (mean * mean * A(n) > 4 * about.squares && is_finite(about.off)) mean += about.off / A(n);
    squares = about.squares;
  }
  return {mean, inverse_root(squares / A(n) + eps)};
}
