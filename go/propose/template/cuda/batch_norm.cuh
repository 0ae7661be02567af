// Batch norm in inference, in eager's order of operations: weight * (x - mean) * invstd + bias.
struct Terms { A mean, weight, invstd, bias; };
template <class P> KF_INLINE A parameter(const P* p, int channel, A missing) {
  if constexpr (kf_same<P, void>) return missing; else return A(kf_of(p[channel]));
}
KF_INLINE float inverse_root(float x) { return rsqrtf(x); }
KF_INLINE double inverse_root(double x) { return rsqrt(x); }
KF_INLINE A applied(A x, const Terms& t) { return t.weight * (x - t.mean) * t.invstd + t.bias; }
// What eager saves: one value a channel, written by all threads of the grid together.
template <class Mean, class Variance> KF_INLINE void save(const Mean* mean, const Variance* variance, A* mean_out, A* invstd_out, int channels, A eps) {
  for (int64_t c = int64_t(blockIdx.x) * THREADS + threadIdx.x; c < channels; c += int64_t(gridDim.x) * THREADS) {
    mean_out[c] = A(kf_of(mean[c]));
    invstd_out[c] = inverse_root(A(kf_of(variance[c])) + eps);
  }
}
