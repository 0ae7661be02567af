// Layer norm, or (RMS) root-mean-square norm, over the trailing dims: rows that are one run each.
//
// Idea: the moments of a row in one reading of it, then one pass that writes; a row of usual length stays in the first caches in between.
// Bound: copy of the bytes.
// Works for: rows of any length, DIMS outer dims of any strides; weight and bias of any floating type or absent.
// Parameters the tree may change: UNROLL (vectors in flight), KF_LANES, GRAIN.
// Numerics: means in double, squares in float (double for double) about the chunk's mean; (x - mean) * rstd * weight + bias.

// @include moments.h

template <class P> KF_INLINE V parameter(const void* p, int64_t i, int n, A missing) {
  if constexpr (__is_same(P, void)) return V{} + missing; else return load((const P*)p + i, n);
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t D = a[6].i;
  const double eps = double(A(a[7].f));
  STAT* mean_out = (STAT*)a[4].p;
  STAT* rstd_out = (STAT*)a[5].p;
  for (int64_t i = begin; i < end; ++i) {
    const T* x = (const T*)a[0].p;
    int64_t rest = i;
    for (int d = DIMS - 1; d >= 0; --d) {
      x += rest % a[8 + d].i * a[8 + DIMS + d].i;
      rest /= a[8 + d].i;
    }
    T* out = (T*)a[1].p + i * D;
    double mean = 0, variance;
    if constexpr (RMS) {
      variance = squares_of(x, D) / double(D);
    } else {
      const Moments m = moments(x, D);
      mean = m.mean;
      variance = m.squares / double(D);
      mean_out[i] = kf_to<STAT>(kf_acc<STAT>(mean));
    }
    const double rstd = inverse_root(variance, eps);
    rstd_out[i] = kf_to<STAT>(kf_acc<STAT>(rstd));
    const Line terms = line(mean, rstd, 1, 0);
    each(D, [&](int64_t c, int n, int) __attribute__((always_inline)) {
      V y = load(x + c, n);
      if constexpr (RMS) y *= terms.scale; else y = on(terms, y);
      const V weight = parameter<WEIGHT>(a[2].p, c, n, 1), bias = parameter<BIAS>(a[3].p, c, n, 0);
      if constexpr (__is_same(BIAS, void)) y *= weight; else y = kf_fma(y, weight, bias);
      store(out + c, y, n);
    });
  }
}
