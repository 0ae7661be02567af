// Types of a pooling page, and windows along one dim.
using T = IN;
using A = kf_acc<T>;

// The first position of a window that lies in the plane, as eager steps into it, and the end of those that do.
struct Range { int from, to; };
KF_INLINE Range range_of(int o, int stride, int padding, int kernel, int dilation, int size) {
  int from = o * stride - padding, to = from + (kernel - 1) * dilation + 1;
  if (from < 0) from += (dilation - 1 - from) / dilation * dilation;
  return {from, kf_least(to, size)};
}
