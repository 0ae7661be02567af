// Reductions of many elements into a vector of C.
using V = kf_v<C>;
constexpr int W = kf_lanes<C>;
constexpr int BLOCK = 64;

#if MAXIMUM
// A maximum: one instruction an element, which loses a NaN, and one that remembers where a NaN was.
struct Fold {
  V part = V{} - C(__builtin_inf());
#if KF_LANES == 16
  unsigned nan = 0;
  KF_INLINE void add(V x) {
    if constexpr (sizeof(C) == 4) part = (V)_mm512_max_ps((__m512)part, (__m512)x), nan |= _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    else part = (V)_mm512_max_pd((__m512d)part, (__m512d)x), nan |= _mm512_cmp_pd_mask((__m512d)x, (__m512d)x, _CMP_UNORD_Q);
  }
  KF_INLINE V value() const {
    V v = part;
    for (int i = 0; i < W && nan != 0; ++i) v[i] = nan >> i & 1 ? C(__builtin_nan("")) : v[i];
    return v;
  }
#else
  KF_INLINE void add(V x) { part = kf_max(part, x); }
  KF_INLINE V value() const { return part; }
#endif
  KF_INLINE void flush() {}
  KF_INLINE void merge(const Fold& f) { add(f.value()); }
  KF_INLINE C over() const { return kf_hmax(value()); }
  static double join(double a, double b) { return kf_max(a, b); }
};
#else
// A sum in two levels: `part` runs plainly for at most BLOCK elements of each lane, then goes into high + low, which lose nothing (two-sum), so
// that the error does not grow with the number of elements.
struct Fold {
  V part = {}, high = {}, low = {};
  bool flushed = false;
  KF_INLINE void add(V x) { part += x; }
  KF_INLINE void flush() {
    V t = high + part, z = t - high;
    low += (high - (t - z)) + (part - z);
    high = t;
    part = V{};
    flushed = true;
  }
  KF_INLINE V value() const { return flushed ? high + (low == low ? low : V{}) + part : part; }  // beside an infinity `low` is NaN, and means nothing
  KF_INLINE void merge(const Fold& f) {
    if (!flushed && !f.flushed) return void(part += f.part);
    flush();
    part = f.part;
    flush();
    part = f.high;
    flush();
    low += f.low;
  }
  KF_INLINE C over() const {
    if (!flushed) return kf_hsum(part);
    double total = 0;
    for (int i = 0; i < W; ++i) total += value()[i];
    return C(total);
  }
  static double join(double a, double b) { return a + b; }
};
#endif
// Lanes from n on do not count.
KF_INLINE V counted(V v, int64_t n) {
#if MAXIMUM
  typename kf_v_of<C>::bits lane;
  for (int i = 0; i < W; ++i) lane[i] = i;
  v = lane < decltype(lane[0] + 0)(n) - decltype(lane){} ? v : V{} - C(__builtin_inf());
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
