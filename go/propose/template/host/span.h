// The part of a pooling window that exists along one dim, and how many elements it divides by.
struct Span { int64_t from, to, count; };
KF_INLINE Span span(int64_t o, int64_t outs, int64_t stride, int64_t padding, int64_t kernel, int64_t size) {
  if (ADAPTIVE) {
    Span s = {o * size / outs, ((o + 1) * size + outs - 1) / outs, 0};
    s.count = s.to - s.from;
    return s;
  }
  int64_t from = o * stride - padding, to = from + kernel < size + padding ? from + kernel : size + padding;
  Span s = {from > 0 ? from : 0, to < size ? to : size, to - from};
  if (!INCLUDE) s.count = s.to - s.from;
  return s;
}
