// The linear terms of a batch norm in inference, one kernel over the channels: y = x * scale + shift, in eager's order of operations.
using T = IN;
using A = kf_acc<T>;
using V = kf_v<A>;
constexpr int L = kf_lanes<A>;

// Element c of a parameter of type P; void: there is none.
template <class P> KF_INLINE A parameter(const void* p, int64_t c, A missing) {
  if constexpr (__is_same(P, void)) return missing; else return A(kf_of(((const P*)p)[c]));
}
KF_ENTRY void kf_terms(int64_t begin, int64_t end, const kf_arg* a) {
  const A eps = A(a[0].f);
  A* scale = (A*)a[1].p;
  A* shift = scale + a[2].i;
  for (int64_t c = begin; c < end; ++c) {
    const A mean = parameter<MEAN>(a[3].p, c, 0), variance = parameter<VARIANCE>(a[4].p, c, 1);
    scale[c] = 1 / kf_sqrt(variance + eps) * parameter<WEIGHT>(a[5].p, c, 1);
    shift[c] = kf_fma(-mean, scale[c], parameter<BIAS>(a[6].p, c, 0));
  }
}
