// Batch norm in inference, in the order of operations of eager's own kernels: weight * (x - mean) * invstd + bias. VENDOR: the library's order is
// not known, so the one that overflows last.
struct Terms { A mean, weight, invstd, bias; };
template <class P> KF_INLINE A parameter(const P* p, int channel, A missing) {
  if constexpr (kf_same<P, void>) return missing; else return A(kf_of(p[channel]));
}
KF_INLINE float inverse_root(float x) { return rsqrtf(x); }
KF_INLINE double inverse_root(double x) { return rsqrt(x); }
template <class Mean, class Variance, class Weight, class Bias>
KF_INLINE Terms terms_of(const Mean* mean, const Variance* variance, const Weight* weight, const Bias* bias, int c, A eps) {
  const A w = parameter(weight, c, A(1)), invstd = inverse_root(parameter(variance, c, A(1)) + eps);
  return {parameter(mean, c, A(0)), VENDOR ? w * invstd : w, invstd, parameter(bias, c, A(0))};
}
// The terms of neighbouring channels, loaded together.
template <class P> KF_INLINE kf_vec<A, VEC> parameters(const P* p, int channel, A missing) {
  if constexpr (kf_same<P, void>) {
    return all_of<VEC>(missing);
  } else {
    const kf_vec<kf_acc<P>, VEC> v = get<VEC>(p + channel, aligned_tensor<VEC>(p));
    kf_vec<A, VEC> w;
#pragma unroll
    for (int e = 0; e < VEC; ++e) w[e] = A(v[e]);
    return w;
  }
}
KF_INLINE A applied(A x, const Terms& t) {
  if constexpr (VENDOR) return (x - t.mean) * t.weight + t.bias; else return t.weight * (x - t.mean) * t.invstd + t.bias;
}
// What eager saves: one value a channel, written by all threads of the grid together.
template <class Mean, class Variance> KF_INLINE void save(const Mean* mean, const Variance* variance, A* mean_out, A* invstd_out, int channels, A eps) {
  for (int64_t c = int64_t(blockIdx.x) * THREADS + threadIdx.x; c < channels; c += int64_t(gridDim.x) * THREADS) {
    mean_out[c] = A(kf_of(mean[c]));
    invstd_out[c] = inverse_root(A(kf_of(variance[c])) + eps);
  }
}
