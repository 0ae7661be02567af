// 1 / sqrt(squares / n + eps), n from 1 to 2^30, and sums over threads for rows that are few.
//
// What a row's mean and deviation are off by, all its elements are off by, to one side. Of many rows that averages; of one to four of float32 it is seen where
// eager's own two numbers happen to be right to the last bit. FEW: joins of threads keep what they round off (two-sum, as sum.cuh has it: the last levels of a
// tree err most), and both numbers are rounded once.
struct Exact { A sum, lost; };
struct JoinExact {  // the same in either order
  KF_INLINE Exact operator()(Exact a, Exact b) const {
    const A sum = a.sum + b.sum, part = sum - a.sum;
    return {sum, (a.lost + b.lost) + ((a.sum - (sum - part)) + (b.sum - part))};
  }
};
KF_INLINE A lost_of(Exact x) { return x.lost - x.lost == 0 ? x.lost : A(0); }  // no number beside an infinity
KF_INLINE A value_of(Exact x) { return x.sum + lost_of(x); }

KF_INLINE Exact plus(Exact a, A b) { return JoinExact()(a, Exact{b, 0}); }

// Of some elements about a mean that all threads know: what they lie apart, and squares.
struct About { Exact rest, squares; };
struct JoinAbout {
  KF_INLINE About operator()(About a, About b) const { return {JoinExact()(a.rest, b.rest), JoinExact()(a.squares, b.squares)}; }
};
KF_INLINE About about(Exact mean, Exact squares, A count, A middle) {
  const A apart = (mean.sum - middle) + mean.lost;
  return {{apart * count, 0}, plus(squares, apart * count * apart)};
}

// (x + lost) / n without the call that a division has for some divisors. What is left of an infinity is NaN.
KF_INLINE float share_of(float x, float n, float lost = 0) {
  const float inverse = kf_fast_reciprocal(n), guess = x * inverse, left = fmaf(-guess, n, x) + lost;
  return left - left == 0 ? fmaf(left, inverse, guess) : guess;
}
KF_INLINE double share_of(double x, double n, double lost = 0) { return x / n + lost / n; }

// share: squares / n.
KF_INLINE float rstd_of(float squares, float n, float share, float eps, float lost = 0) {
  const float v = share + eps, y = rsqrtf(v);
  if constexpr (!FEW) return y;
  // What quotient and sum rounded off, and a step of Newton's with it.
  const float part = v - share, low = (fmaf(-share, n, squares) + lost) / n + ((share - (v - part)) + (eps - part));
  const float h = v * y, off = fmaf(-h, y, 1.0f) - (fmaf(v, y, -h) + low * y) * y;
  return off - off == 0 ? fmaf(0.5f * y, off, y) : y;
}
KF_INLINE double rstd_of(double, double, double share, double eps, double = 0) { return rsqrt(share + eps); }
