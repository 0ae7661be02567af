// Upsample nearest: each output pixel is one input pixel. NCHW (contiguous along W) and NHWC (contiguous along C).
//
// Idea: a thread writes vectors of VEC elements, UNROLL of them, THREADS vectors apart. NHWC: a vector is of one pixel, so it is read as a vector.
// NCHW: its elements are read one by one, neighbours from the same cache line; for twice the size, as one vector of half the length.
// Bound: one write of the output and one read of the input.
// Works for: any sizes and strides; where rows are not whole vectors, VEC is 1.
// Parameters the tree may change: VEC, THREADS, UNROLL, WAVES (in the spec).
// Numerics: exact; elements are moved as bits; indices are eager's, in float.

// @include resize.cuh

// Twice the size, where floor(float(i) * 0.5f) is i / 2.
KF_INLINE bool doubled(INDEX in, INDEX out, float scale) { return scale == 0.5f && out == 2 * in && out < 1 << 24; }
KF_INLINE INDEX source(INDEX i, INDEX in, INDEX out, float scale) {
  if (in == out) return i;
  if (doubled(in, out, scale)) return i >> 1;
  const INDEX at = INDEX(floorf(float(i) * scale));
  return at < in - 1 ? at : in - 1;
}

template <int VECTOR> struct Piece {
  kf_vec<ELEMENT, VECTOR> v;
};
template <int VECTOR> KF_INLINE void load(Piece<VECTOR>& p, const Image& in, INDEX n, INDEX c, INDEX h, INDEX w, const Scales& s) {
  const ELEMENT* row = in.data + n * in.n + c * in.c + source(h, s.in_h, s.out_h, s.h) * in.h;
  if constexpr (LAST || VECTOR == 1) {
    p.v = kf_load<VECTOR>(row + source(w, s.in_w, s.out_w, s.w) * in.w);
  } else if (const ELEMENT* half = row + (w >> 1); doubled(s.in_w, s.out_w, s.w) && in.w == 1 && kf_aligned<VECTOR / 2>(half)) {
    const kf_vec<ELEMENT, VECTOR / 2> v = kf_load<VECTOR / 2>(half);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) p.v[j] = v[j / 2];
  } else {
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) p.v[j] = row[source(w + j, s.in_w, s.out_w, s.w) * in.w];
  }
}
template <int VECTOR> KF_INLINE kf_vec<ELEMENT, VECTOR> value(const Piece<VECTOR>& p) { return p.v; }

// @include resize_main.cuh
