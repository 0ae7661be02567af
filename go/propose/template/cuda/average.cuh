// @include quotient.cuh

// The part of an averaging window that exists along one dim, and how many elements it divides by. outs: what divides by the number of outputs; ADAPTIVE
// windows begin at o * size / outs and end at (o + 1) * size / outs, rounded up. INDEX has room for these products.
struct Span { int from, to, count; };
template <class Outs> KF_INLINE Span span_of(int o, const Outs& outs, int stride, int padding, int kernel, int size) {
  if constexpr (ADAPTIVE) {
    const int from = int(outs.quotient(INDEX(o) * size)), to = int(outs.quotient(INDEX(o + 1) * size + outs.size - 1));
    return {from, to, to - from};
  } else {
    const int from = o * stride - padding, to = kf_least(from + kernel, size + padding);
    const Span s = {from > 0 ? from : 0, kf_least(to, size), to - from};
    return INCLUDE ? s : Span{s.from, s.to, s.to - s.from};
  }
}
// The average from the sum, in eager's order.
KF_INLINE A average(A sum, const Span& rows, const Span& columns) {
  if constexpr (ADAPTIVE) return quotient(quotient(sum, A(rows.count)), A(columns.count));
  else if constexpr (DIVISOR != 0) return divided<DIVISOR>(sum);
  else return quotient(sum, A(rows.count * columns.count));
}
// The elements of a window, row by row, `step` apart, without a division for each.
struct Steps {
  int wide, down, right, h, w;
  KF_INLINE Steps(int first, int step, int wide) : wide(wide), down(step / wide), right(step % wide), h(first / wide), w(first % wide) {}
  KF_INLINE void next() {
    h += down;
    w += right;
    if (w >= wide) w -= wide, ++h;
  }
};
