// What a reduction does with its elements, in C. With PARTS > 1 each output's elements are folded in that many parts, which `kf_join` folds.
KF_INLINE C start() { return MAXIMUM ? -kf_infinity<C>() : C(0); }
struct Fold {
  KF_INLINE C operator()(C a, C b) const { return MAXIMUM ? kf_max(a, b) : a + b; }
};
// Eager multiplies by outputs / elements.
KF_INLINE OUT finish(C x, INDEX outputs, INDEX elements) { return kf_to<OUT>(MEAN ? x * (C(outputs) / C(elements)) : x); }

// The values of a vector and of several vectors, pairwise.
template <int Count> KF_INLINE C folded(kf_vec<C, Count> v) {
#pragma unroll
  for (int half = Count / 2; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; ++j) v[j] = Fold()(v[j], v[j + half]);
  return v[0];
}
// @include sum.cuh

// The fold of a long run, which takes some elements at a time, folded in pairs: an addition that loses nothing for all of them together.
struct Run {
#if MAXIMUM
  C most = start();
  KF_INLINE void add(C x) { most = Fold()(most, x); }
  KF_INLINE C value() const { return most; }
#else
  Sum<C> sum;
  KF_INLINE void add(C x) { sum.add(x); }
  KF_INLINE C value() const { return sum.value(); }
#endif
};
