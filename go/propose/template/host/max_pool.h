// The running maximum of a window and where it was seen first, for each lane.
constexpr A low = -A(__builtin_inff());

#if INDICES
struct Best { V v; I i; };
#else
struct Best {  // nobody reads where it was, so nothing is kept of that
  V v;
  Best() = default;
  KF_INLINE Best(V v, I) : v(v) {}
};
#endif
// The next element of the window. EXACT: NaN wins over everything and the last one stays; else v must not be NaN.
template <bool EXACT> KF_INLINE void take(Best& a, V v, I i) {
  auto better = v > a.v;
  if constexpr (EXACT) better |= v != v;
  a.v = better ? v : a.v;
#if INDICES
  a.i = better ? i : a.i;
#endif
}
#if INDICES
template <bool EXACT> KF_INLINE void take(Best& a, const Best& b) { take<EXACT>(a, b.v, b.i); }
KF_INLINE void shift(Best& a, I by) { a.i += by; }
#else
template <bool EXACT> KF_INLINE void take(Best& a, const Best& b) { take<EXACT>(a, b.v, I{}); }
KF_INLINE void shift(Best&, I) {}
#endif
// Writes n lanes: values, and with INDICES positions as 64-bit integers.
KF_INLINE void put(T* out, int64_t* index, const Best& a, int n) {
  if (n == L) kf_store(out, a.v); else kf_store_n(out, a.v, n);
#if INDICES
  constexpr int D = kf_lanes<double>;
  typedef J part __attribute__((vector_size(D * sizeof(J))));
  part parts[L / D];
  __builtin_memcpy(parts, &a.i, sizeof a.i);
  for (int h = 0; h < L / D; ++h) {
    double* p = (double*)index + h * D;
    kf_f64 bits = (kf_f64)__builtin_convertvector(parts[h], kf_i64);
    if (n - h * D >= D) {
      if (STREAM && uintptr_t(p) % sizeof bits == 0) kf_stream(p, bits); else kf_store(p, bits);
    } else if (n > h * D) kf_store_n(p, bits, n - h * D);
  }
#endif
}
