// Functions of the arithmetic type. FAST stands for half types only: there the hardware's exponential and reciprocal, whose relative errors stay
// below 2^-16, are far finer than the rounding of the result.
KF_INLINE float fused(float a, float b, float c) { return fmaf(a, b, c); }
KF_INLINE double fused(double a, double b, double c) { return fma(a, b, c); }
KF_INLINE float root(float x) { return sqrtf(x); }
KF_INLINE double root(double x) { return sqrt(x); }
KF_INLINE float inverse_root(float x) { return rsqrtf(x); }
KF_INLINE double inverse_root(double x) { return rsqrt(x); }
KF_INLINE float exponential(float x) { return FAST ? kf_fast_exp(x) : expf(x); }
KF_INLINE double exponential(double x) { return exp(x); }
KF_INLINE float reciprocal(float x) { return FAST ? kf_fast_reciprocal(x) : 1.0f / x; }
KF_INLINE double reciprocal(double x) { return 1.0 / x; }
KF_INLINE float hyperbolic_tangent(float x) { return tanhf(x); }
KF_INLINE double hyperbolic_tangent(double x) { return tanh(x); }
KF_INLINE float error_function(float x) { return erff(x); }
// The tail of the normal distribution below -a, for a >= 0: exp(-a^2 / 2) times a polynomial in t = 1 / (1 + 0.31 a), least squares made minimax by
// weights. Relative error 2^-16. Unlike 1 + erf it does not cancel.
KF_INLINE float normal_tail(float a) {
  const float t = kf_flushed_reciprocal(fmaf(0.31f, a, 1.0f));
  float p = fmaf(-0.0739284009f, t, 0.180448592f);
  p = fmaf(p, t, 0.0157461893f);
  p = fmaf(p, t, 0.133429259f);
  p = fmaf(p, t, 0.12044134f);
  p = fmaf(p, t, 0.123860702f);
  return kf_exp2(a * a * -0.72134752f) * (t * p);
}
