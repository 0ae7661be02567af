// Upsample bilinear: each output pixel from four input pixels. NCHW (contiguous along W) and NHWC (contiguous along C).
//
// Idea: a thread writes vectors of VEC elements, UNROLL of them, THREADS vectors apart. NHWC: a vector is of one pixel, so its four sources are
// vectors and its weights are computed once. NCHW: the weights of the row are computed once, those of the columns for each element. All loads
// come first. Bound: one write of the output and one read of the input.
// Works for: any sizes and strides; where rows are not whole vectors, VEC is 1.
// Parameters the tree may change: VEC, THREADS, UNROLL, WAVES (in the spec).
// Numerics: as eager: indices and weights in C, h0 (w0 a + w1 b) + h1 (w0 c + w1 d), rounded once.
// An image that keeps its size is copied: a weight of zero would make NaN of an infinity.

// @include resize.cuh

// Two neighbours along one dim and the weight of the second.
struct Pair {
  INDEX low, step;
  C weight;
};
KF_INLINE Pair source(INDEX i, INDEX in, C scale) {
  C at = ALIGN ? scale * C(i) : scale * (C(i) + C(0.5)) - C(0.5);
  if (!ALIGN && at < C(0)) at = C(0);
  Pair p;
  p.low = INDEX(at);
  p.step = p.low < in - 1 ? 1 : 0;
  p.weight = at - C(p.low);
  return p;
}

template <int VECTOR> struct Piece {
  static constexpr int columns = LAST ? 1 : VECTOR;
  kf_vec<ELEMENT, VECTOR> a, b, c, d;
  C high, right[columns];
  bool same;
};
template <int VECTOR> KF_INLINE void load(Piece<VECTOR>& p, const Image& in, INDEX n, INDEX c, INDEX h, INDEX w, const Scales& s) {
  const Pair y = source(h, s.in_h, s.h);
  const ELEMENT* top = in.data + n * in.n + c * in.c + y.low * in.h;
  const ELEMENT* bottom = top + y.step * in.h;
  p.high = y.weight;
  p.same = s.same;
#pragma unroll
  for (int j = 0; j < Piece<VECTOR>::columns; ++j) {
    const Pair x = source(w + j, s.in_w, s.w);
    const INDEX left = x.low * in.w, right = left + x.step * in.w;
    p.right[j] = x.weight;
    if constexpr (LAST) {
      p.a = kf_load<VECTOR>(top + left);
      p.b = kf_load<VECTOR>(top + right);
      p.c = kf_load<VECTOR>(bottom + left);
      p.d = kf_load<VECTOR>(bottom + right);
    } else {
      p.a[j] = top[left];
      p.b[j] = top[right];
      p.c[j] = bottom[left];
      p.d[j] = bottom[right];
    }
  }
}
template <int VECTOR> KF_INLINE kf_vec<ELEMENT, VECTOR> value(const Piece<VECTOR>& p) {
  kf_vec<C, VECTOR> y;
#pragma unroll
  for (int j = 0; j < VECTOR; ++j) {
    const C w1 = p.right[LAST ? 0 : j], w0 = C(1) - w1, h1 = p.high, h0 = C(1) - h1;
    const C one = kf_of(p.a[j]);
    y[j] = p.same ? one : h0 * (w0 * one + w1 * C(kf_of(p.b[j]))) + h1 * (w0 * C(kf_of(p.c[j])) + w1 * C(kf_of(p.d[j])));
  }
  return kf_narrow<ELEMENT>(y);
}

// @include resize_main.cuh
