// Weights and biases of a norm; their type is void where there are none.
//
// LAYER: of element `at` of the row. Otherwise (group norm) of the channel that it belongs to: `first` + at / area; INSIDE: the elements of a
// vector belong to one channel. Odd: `at` is no multiple of a vector.
template <bool Odd = false, class P, class Area> KF_INLINE kf_vec<A, VEC> weights(const P* p, int at, int first, const Area& area, bool aligned, A missing) {
  if constexpr (kf_same<P, void>) {
    return all_of<VEC>(missing);
  } else if constexpr (LAYER) {
    kf_vec<A, VEC> w;
    if constexpr (Odd) {
#pragma unroll
      for (int e = 0; e < VEC; ++e) w[e] = A(kf_of(p[at + e]));
    } else {
      kf_vec<kf_acc<P>, VEC> v = get<VEC>(p + at, aligned);
#pragma unroll
      for (int e = 0; e < VEC; ++e) w[e] = A(v[e]);
    }
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
// Elements from `at` of the row on, normalised; and a single one.
template <bool Odd, class W, class B, class Area>
KF_INLINE kf_vec<A, VEC> normed(const kf_vec<A, VEC>& v, A mean, A rstd, const W* weight, const B* bias, int at, int first, const Area& area, bool aligned) {
  const kf_vec<A, VEC> w = weights<Odd>(weight, at, first, area, aligned, A(1)), b = weights<Odd>(bias, at, first, area, aligned, A(0));
  kf_vec<A, VEC> y;
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    y[e] = (v[e] - mean) * rstd * w[e];
    if constexpr (!kf_same<BIAS, void>) y[e] += b[e];
  }
  return y;
}
template <class W, class B, class Area> KF_INLINE A normed_one(A v, A mean, A rstd, const W* weight, const B* bias, int at, int first, const Area& area) {
  const int place = LAYER ? at : first + int(area.quotient(at));
  A y = (v - mean) * rstd;
  if constexpr (!kf_same<W, void>) y *= A(kf_of(weight[place]));
  if constexpr (!kf_same<B, void>) y += A(kf_of(bias[place]));
  return y;
}
