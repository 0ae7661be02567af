// Group norm of contiguous tensors: a group is one run of channels times plane.
//
// Idea: the moments of a group in one reading of it, then a subtraction and a multiply-add an element with the terms of its channel.
// Bound: one more reading than a copy, for groups beyond the second cache.
// Works for: any sizes; weight and bias of any floating type or absent.
// Parameters the tree may change: UNROLL (vectors in flight), KF_LANES, GRAIN.
// Numerics: means in double, squares in float (double for double) about the chunk's mean; (x - mean) * scale + bias.

// @include moments.h

template <class P> KF_INLINE double parameter(const void* p, int64_t i, double missing) {
  if constexpr (__is_same(P, void)) return missing; else return double(kf_of(((const P*)p)[i]));
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t channels = a[6].i, size = a[7].i, groups = a[8].i;  // channels of a group, elements of a plane, groups of a sample
  const double eps = double(A(a[9].f));
  STAT* mean_out = (STAT*)a[4].p;
  STAT* rstd_out = (STAT*)a[5].p;
  for (int64_t i = begin; i < end; ++i) {
    const T* x = (const T*)a[0].p + i * channels * size;
    T* out = (T*)a[1].p + i * channels * size;
    const Moments m = moments(x, channels * size);
    const double rstd = inverse_root(m.squares / m.count, eps);
    mean_out[i] = kf_to<STAT>(kf_acc<STAT>(m.mean));
    rstd_out[i] = kf_to<STAT>(kf_acc<STAT>(rstd));
    for (int64_t k = 0; k < channels; ++k, x += size, out += size) {
      const int64_t c = i % groups * channels + k;
      const Line terms = line(m.mean, rstd, parameter<WEIGHT>(a[2].p, c, 1), parameter<BIAS>(a[3].p, c, 0));
      each(size, [&](int64_t j, int n, int) __attribute__((always_inline)) { store(out + j, on(terms, load(x + j, n)), n); });
    }
  }
}
