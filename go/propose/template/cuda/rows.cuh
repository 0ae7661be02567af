// @include aligned.cuh

// Rows of a tensor as whole vectors of VEC elements: VEC divides every row and stride, so only the addresses of the tensors can be odd.
using T = IN;
using A = kf_acc<T>;

// Elements in arithmetic. A pair of bfloat16 is a shift and a mask; one after the other they would be moved apart first.
template <int N, class X> KF_INLINE kf_vec<kf_acc<X>, N> widened(const kf_vec<X, N>& v) {
  if constexpr (kf_same<X, kf_bf16> && N % 2 == 0) {
    union { kf_vec<X, N> vec; uint32_t pairs[N / 2]; } bits;
    bits.vec = v;
    kf_vec<float, N> w;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      w[2 * i] = __uint_as_float(bits.pairs[i] << 16);
      w[2 * i + 1] = __uint_as_float(bits.pairs[i] & 0xffff0000u);
    }
    return w;
  } else {
    return kf_wide(v);
  }
}
// N elements in arithmetic; element by element where the tensor's address is odd (`aligned` is one answer for the whole kernel).
template <int N, class X> KF_INLINE kf_vec<kf_acc<X>, N> get(const X* p, bool aligned) {
  if constexpr (!SHIFTED) {
    return widened(kf_load<N>(p));
  } else {
    if (aligned) return widened(kf_load<N>(p));
    kf_vec<kf_acc<X>, N> v;
#pragma unroll
    for (int e = 0; e < N; ++e) v[e] = kf_of(p[e]);
    return v;
  }
}
template <int N, bool Once = false, class X, class Y> KF_INLINE void put(X* p, const kf_vec<Y, N>& v, bool aligned) {
  const kf_vec<X, N> w = kf_narrow<X>(v);
  if constexpr (!SHIFTED) {
    kf_store<Once>(p, w);
  } else {
    if (aligned) return kf_store<Once>(p, w);
#pragma unroll
    for (int e = 0; e < N; ++e) p[e] = w[e];
  }
}
template <int N, class X> KF_INLINE kf_vec<X, N> all_of(X x) {
  kf_vec<X, N> v;
#pragma unroll
  for (int e = 0; e < N; ++e) v[e] = x;
  return v;
}
// The sum in pairs: exact where all are equal and N is a power of two, and short chains.
template <int N, class X> KF_INLINE X total(const X* v) {
  if constexpr (N == 1) return v[0]; else return total<N / 2>(v) + total<N - N / 2>(v + N / 2);
}
