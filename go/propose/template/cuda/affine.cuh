// Weights and biases of a norm; their type is void where there are none.
//
// LAYER: of element `at` of the row. Otherwise (group norm) of the channel that it belongs to: `first` + at / area; INSIDE: the elements of a
// vector belong to one channel.
template <class P, class Area> KF_INLINE kf_vec<A, VEC> weights(const P* p, int at, int first, const Area& area, bool aligned, A missing) {
  if constexpr (kf_same<P, void>) {
    return all_of<VEC>(missing);
  } else if constexpr (LAYER) {
    kf_vec<kf_acc<P>, VEC> v = get<VEC>(p + at, aligned);
    kf_vec<A, VEC> w;
#pragma unroll
    for (int e = 0; e < VEC; ++e) w[e] = A(v[e]);
    return w;
  } else if constexpr (INSIDE) {
    return all_of<VEC>(A(kf_of(p[first + area.quotient(at)])));
  } else {
    kf_vec<A, VEC> w;
#pragma unroll
    for (int e = 0; e < VEC; ++e) w[e] = A(kf_of(p[first + area.quotient(at + e)]));
    return w;
  }
}
template <class P> KF_INLINE bool aligned_parameter(const P* p) {
  if constexpr (kf_same<P, void>) return true; else return aligned_tensor<VEC>(p);
}
KF_INLINE float inverse_root(float x) { return rsqrtf(x); }
KF_INLINE double inverse_root(double x) { return rsqrt(x); }
