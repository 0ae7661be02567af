// The output's pieces in the order of its memory: (n, c, h, w), or with LAST (n, h, w, c); the innermost of them in vectors.
struct Place {
  kf_divider<INDEX> inner, middle, outer;
  INDEX n, c, h, w;  // the output's strides
};
template <int VECTOR> KF_INLINE void run(ELEMENT* out, const Place& to, const Image& in, const Scales& s, INDEX count) {
  for (INDEX start = INDEX(blockIdx.x) * (THREADS * UNROLL); start < count; start += INDEX(gridDim.x) * (THREADS * UNROLL)) {
    Piece<VECTOR> piece[UNROLL];
    INDEX at[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      INDEX i = start + u * THREADS + INDEX(threadIdx.x);
      if (i >= count) continue;
      const INDEX inner = to.inner.split(i) * VECTOR, middle = to.middle.split(i), outer = to.outer.split(i);
      const INDEX c = LAST ? inner : outer, h = LAST ? outer : middle, w = LAST ? middle : inner;
      at[u] = i * to.n + c * to.c + h * to.h + w * to.w;
      load<VECTOR>(piece[u], in, i, c, h, w, s);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (start + u * THREADS + INDEX(threadIdx.x) < count) kf_store(out + at[u], value<VECTOR>(piece[u]));
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const Image in = {self, from_n, from_c, from_h, from_w};
  const Scales s = {in_h, in_w, out_h, out_w, scale_of(in_h, out_h, inverse_h), scale_of(in_w, out_w, inverse_w), in_h == out_h && in_w == out_w};
  const kf_divider<INDEX> middle = {middle_n, middle_n_magic}, outer = {outer_n, outer_n_magic};
  const bool aligned = aligned_tensor<VEC>(out) && (!LAST || aligned_tensor<VEC>(self));
  if (VEC > 1 && aligned) run<VEC>(out, {{vectors_n, vectors_n_magic}, middle, outer, to_n, to_c, to_h, to_w}, in, s, count / VEC);
  else if constexpr (VEC == 1 || SHIFTED) run<1>(out, {{inner_n, inner_n_magic}, middle, outer, to_n, to_c, to_h, to_w}, in, s, count);
}
