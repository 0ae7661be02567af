// x / n in three instructions, for an n that many x share: what the first product leaves is exact, and taken in it is rounded once, as a division is
// (Markstein 1990). n from 1 to 2^24. What is left of an infinity is NaN.
KF_INLINE float quotient(float x, float n) {
  const float inverse = 1 / n, y = x * inverse, left = fmaf(-y, n, x);
  return left == left ? fmaf(left, inverse, y) : y;
}
KF_INLINE double quotient(double x, double n) {
  const double inverse = 1 / n, y = x * inverse, left = fma(-y, n, x);
  return left == left ? fma(left, inverse, y) : y;
}
// The same by a constant; a product where N is a power of two.
template <int64_t N, class X> KF_INLINE X divided(X x) {
  if constexpr ((N & (N - 1)) == 0) return x * (1 / X(N)); else return quotient(x, X(N));
}
