// @include aligned.cuh

// An image by its strides, and what is needed to find an output pixel's sources.
struct Image {
  const ELEMENT* data;
  INDEX n, c, h, w;
};
struct Scales {
  INDEX in_h, in_w, out_h, out_w;
  C h, w;
  bool same;  // nothing is resized
};
// Input pixels an output pixel, as eager has it. inverse is 1 / the given factor, or 0 where none is given.
KF_INLINE C scale_of(INDEX in, INDEX out, double inverse) {
  if (ALIGN) return out > 1 ? C(in - 1) / C(out - 1) : C(0);
  return inverse > 0 ? C(inverse) : C(in) / C(out);
}
