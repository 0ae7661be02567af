// What the softmax pages share. LOG: the logarithm.
//
// The maximum need not see a NaN: a row with NaN or +infinity, or all -infinity, is NaN because its sum is, or its quotient 0 / 0.
KF_INLINE float most_of(float a, float b) { return fmaxf(a, b); }
KF_INLINE double most_of(double a, double b) { return fmax(a, b); }
struct Most { KF_INLINE A operator()(A a, A b) const { return most_of(a, b); } };

// e^x for x <= 0, larger by 2^larger. Of half types by the device's approximation of 2^x, whose error of 1e-5 is far below their rounding. It makes zero
// of what is below the normal numbers, so exponentials that are divided by their sum are larger than that by a common factor.
constexpr float LARGER = sizeof(A) == 4 && !LOG ? 64 : 0;
// Of float by its own series: the device's expf errs to one side, twice in sums that are joined from pieces and once in what is divided by them (-1.1 u in
// the mean on an H200, more than eager's). x = n log(2) + r, e^r = 1 + r + r^2 q(r), where q is the polynomial of least largest error for |r| <= log(2) / 2:
// at most 1 ulp off, 0.01 in the mean. n is in the low bits of a float that is 1.5 * 2^23 larger. NaN stays NaN; -infinity is zero.
KF_INLINE float exponential(float x, float larger) {
  const float magic = 12582912.0f + 127 + larger, t = __fmaf_rn(x, 1.44269504f, magic), n = t - magic;
  const float r = __fmaf_rn(n, 1.904654323e-9f, __fmaf_rn(n, -0.693147182f, x));
  float q = __fmaf_rn(0x1.6a2402p-10f, r, 0x1.1239e8p-7f);
  q = __fmaf_rn(q, r, 0x1.5558f2p-5f);
  q = __fmaf_rn(q, r, 0x1.555492p-3f);
  q = __fmaf_rn(q, r, 0x1.fffffcp-2f);
  const float y = (1 + __fmaf_rn(q, r * r, r)) * __int_as_float(__float_as_int(t) << 23);
  return x < (larger > 0 ? -104.0f : -87.0f) ? 0.0f : y;  // below, it is nothing beside the maximum's 1
}
KF_INLINE A power(A x, float larger = LARGER) {
  if constexpr (kf_is_half<OUT>) {
    return kf_exp2(float(x) * 1.44269504f + larger);
  } else if constexpr (sizeof(A) == 8) {
    return exp(x);
  } else {
    return exponential(x, larger);
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

// FLOAT: exponentials take as long as memory does, so that they are made once where a row stays on the chip, and divided by a product with the reciprocal and
// its correction (Markstein 1990): the nearest quotient, since numbers are LARGER than what the product or the remainder would round to nothing.
constexpr bool FLOAT = sizeof(A) == 4 && !kf_is_half<OUT> && !LOG;
// The last step, from exponentials or (LOG) from elements.
struct Finish {
  A base, last, inverse;
  KF_INLINE Finish(Part p) : base(base_of(p.most)), inverse(A(1) / p.sum) {
    if constexpr (LOG) last = sizeof(A) == 8 ? A(log(p.sum)) : A(logf(p.sum));
    else last = p.sum;
  }
  KF_INLINE A of_power(A e) const {
    if constexpr (kf_is_half<OUT>) {
      return e * inverse;
    } else if constexpr (FLOAT) {
      const float q = e * inverse;
      return __fmaf_rn(__fmaf_rn(-q, last, e), inverse, q);
    } else {
      return e / last;
    }
  }
  KF_INLINE A of_element(A x) const {
    if constexpr (LOG) return x - base - last; else return of_power(power(x - base));
  }
};
