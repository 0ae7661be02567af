// What the softmax pages share. LOG: the logarithm.
//
// The maximum need not see a NaN: a row with NaN or +infinity, or all -infinity, is NaN because its sum is, or its quotient 0 / 0.
KF_INLINE float most_of(float a, float b) { return fmaxf(a, b); }
KF_INLINE double most_of(double a, double b) { return fmax(a, b); }
struct Most { KF_INLINE A operator()(A a, A b) const { return most_of(a, b); } };

// e^x for x <= 0. Of half types the device's approximation of 2^x, whose error of 1e-5 is far below their rounding. It makes zero of what is below
// the normal numbers, so exponentials that are divided by their sum are larger than that by a common factor.
constexpr float LARGER = kf_is_half<OUT> && !LOG ? 64 : 0;
KF_INLINE A power(A x, float larger = LARGER) {
  if constexpr (kf_is_half<OUT>) {
    return kf_exp2(float(x) * 1.44269504f + larger);
  } else if constexpr (sizeof(A) == 8) {
    return exp(x);
  } else {
    return expf(x);
  }
}
// e^(x - y), by which a sum below the maximum x becomes one below y.
KF_INLINE A rescale(A x, A y) { return power(x - y, 0); }
// The maximum of some elements and the sum of the exponentials below it. A maximum of -infinity would make NaN of what is only zero.
struct Part { A most, sum; };
KF_INLINE A base_of(A most) { return most == -kf_infinity<A>() ? A(0) : most; }
struct Join {
  KF_INLINE Part operator()(Part a, Part b) const {
    const A most = most_of(a.most, b.most), base = base_of(most);
    return {most, a.sum * rescale(a.most, base) + b.sum * rescale(b.most, base)};
  }
};
KF_INLINE Part nothing() { return {-kf_infinity<A>(), A(0)}; }

// The last step, from exponentials or (LOG) from elements.
struct Finish {
  A base, last;
  KF_INLINE Finish(Part p) : base(base_of(p.most)) {
    if constexpr (LOG) last = sizeof(A) == 8 ? A(log(p.sum)) : A(logf(p.sum));
    else last = kf_is_half<OUT> ? A(1) / p.sum : p.sum;
  }
  KF_INLINE A of_power(A e) const {
    if constexpr (kf_is_half<OUT>) return e * last; else return e / last;
  }
  KF_INLINE A of_element(A x) const {
    if constexpr (LOG) return x - base - last; else return of_power(power(x - base));
  }
};
