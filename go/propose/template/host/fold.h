// Reductions of many elements into a vector of C. A sum is accurate in two levels: `part` runs plainly for at most BLOCK elements of each
// lane, then goes into high + low, which lose nothing (two-sum), so that the error does not grow with the number of elements.
using V = kf_v<C>;
constexpr int W = kf_lanes<C>;
constexpr int BLOCK = 64;

struct Fold {
#if MAXIMUM
  V part = V{} - C(__builtin_inf());
  KF_INLINE void add(V x) { part = kf_max(part, x); }
  KF_INLINE void flush() {}
  KF_INLINE V value() const { return part; }
  KF_INLINE void merge(const Fold& f) { part = kf_max(part, f.part); }
  static C over(V v) { return kf_hmax(v); }
  static double join(double a, double b) { return kf_max(a, b); }
#else
  V part = {}, high = {}, low = {};
  KF_INLINE void add(V x) { part += x; }
  KF_INLINE void flush() {
    V t = high + part, z = t - high;
    low += (high - (t - z)) + (part - z);
    high = t;
    part = V{};
  }
  KF_INLINE V value() const { return high + (low == low ? low : V{}) + part; }  // beside an infinity `low` is NaN, and means nothing
  KF_INLINE void merge(const Fold& f) { flush(); part = f.part; flush(); part = f.high; flush(); low += f.low; }
  static double over(V v) {
    double total = 0;
    for (int i = 0; i < W; ++i) total += v[i];
    return total;
  }
  static double join(double a, double b) { return a + b; }
#endif
};
// Lanes from n on do not count.
KF_INLINE V counted(V v, int64_t n) {
#if MAXIMUM
  for (int i = 0; i < W; ++i) v[i] = i < n ? v[i] : C(-__builtin_inf());
#endif
  return v;
}
template <class X> KF_INLINE X finished(X total, int64_t count) {
#if MEAN
  return total / C(count);
#else
  return total;
#endif
}

// The input's dims, kept and reduced ones sorted and joined on their own. Arguments of a kernel: output, input, with PARTS > 1 the parts'
// results; then for all dims of the input the sizes, the strides, the output's strides.
struct Shape {
  Loop<2> kept;  // strides of input and output
  Loop<1> reduced;
  int64_t outputs = 1, count = 1;
};
KF_INLINE Shape shape_of(const kf_arg* args) {
  const kf_arg* dims = args + 2 + (PARTS > 1);
  Shape s;
  for (int d = 0; d < DIMS; ++d) {
    const int64_t size = dims[d].i, from = dims[DIMS + d].i, to = dims[2 * DIMS + d].i;
    if (REDUCED >> d & 1) s.reduced.dim(size, {from}), s.count *= size;
    else s.kept.dim(size, {from, to}), s.outputs *= size;
  }
  s.kept.join();
  s.reduced.join();
  return s;
}

#if PARTS > 1
KF_ENTRY void kf_join(int64_t begin, int64_t end, const kf_arg* args) {
  const Shape s = shape_of(args);
  const int64_t to = s.kept.stride[1][s.kept.dims - 1];
  const C* parts = (const C*)args[2].p;
  int64_t at = begin;
  s.kept.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) {
    for (int64_t r = 0; r < m; ++r)
      for (int64_t i = 0; i < n; ++i, ++at) {
        double total = parts[at];
        for (int k = 1; k < PARTS; ++k) total = Fold::join(total, parts[k * s.outputs + at]);
        ((OUT*)args[0].p)[offset[1] + r * s.kept.next(1) + i * to] = kf_to<OUT>(finished(C(total), s.count));
      }
  });
}
#endif
