// Average pooling, adaptive too, of planes whose rows are contiguous: down the window first, then along the row.
//
// Idea: the rows of a window are added up for the whole width, vectors at a time, into a buffer in L1; then each output adds its columns of
// the buffer. So long strides and windows that differ from one output to the next cost nothing more. Where the columns of an output begin and
// end is worked out once, not for each row: that and the plain additions along the row took as long as the memory did. A block of the width
// walks down rows that are far apart, which the hardware does not follow, so its lines are asked for AHEAD. Bound: bytes of input and output.
// Works for: any sizes with rows of stride 1, rows up to WIDTH elements and OUTS outputs. ADAPTIVE: windows from the sizes; else kernel, stride
// and padding.
// Parameters the tree may change: UNROLL (vectors of the width added together), AHEAD (KiB of input to prefetch), KF_LANES, GRAIN.
// Numerics: sums in float (double for double) in another order than eager's.

// @include pool.h

// @include span.h

template <int U> KF_INLINE void add_rows(const T* p, int64_t pitch, int64_t rows, A* sum, int n) {
  V v[U];
  for (int u = 0; u < U; ++u) v[u] = V{};
  for (int64_t h = 0; h < rows; ++h, p += pitch)
    for (int u = 0; u < U; ++u) {
      if (AHEAD) for (int b = 0; b < L * int(sizeof(T)); b += 64) __builtin_prefetch((const char*)(p + u * L) + AHEAD * 1024 + b);
      v[u] += n == L ? kf_load(p + u * L) : kf_load_n(p + u * L, n);
    }
  for (int u = 0; u < U; ++u) kf_store(sum + u * L, v[u]);
}
template <int U> KF_INLINE void add_width(const T* p, int64_t pitch, int64_t rows, A* sum, int64_t w, int64_t W) {
  for (; w + U * L <= W; w += U * L) add_rows<U>(p + w, pitch, rows, sum + w, L);
  if constexpr (U > 1) add_width<U / 2>(p, pitch, rows, sum, w, W);
  else if (w < W) add_rows<1>(p + w, pitch, rows, sum + w, int(W - w));
}
// The sum of columns [from, to) of the buffer. Short runs one by one, long ones by vectors.
KF_INLINE A along(const A* sum, int from, int to) {
  A total = 0;
  if (!ADAPTIVE && KW < L && to - from == KW) {
    for (int k = 0; k < KW; ++k) total += sum[from + k];
  } else if (to - from < L) {
    for (int k = from; k < to; ++k) total += sum[k];
  } else {
    V v = kf_load(sum + from);
    for (from += L; from + L <= to; from += L) v += kf_load(sum + from);
    if (from < to) v += kf_load_n(sum + from, to - from);
    total = kf_hsum(v);
  }
  return total;
}
struct Columns { int32_t from, to, count; };  // a plane has fewer than 2^31 elements

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[3].i, H = a[4].i, W = a[5].i, OH = a[6].i, OW = a[7].i, sn = a[8].i, sc = a[9].i, sh = a[10].i;
  A sum[WIDTH + L];
  Columns columns[OUTS];
  for (int64_t o = 0; o < OW; ++o) {
    const Span s = span(o, OW, SW, PW, KW, W);
    columns[o] = {int32_t(s.from), int32_t(s.to), int32_t(s.count)};
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = i / OH;
    const Span rows = span(i % OH, OH, SH, PH, KH, H);
    const T* x = (const T*)a[0].p + plane / C * sn + plane % C * sc + rows.from * sh;
    add_width<UNROLL>(x, sh, rows.to - rows.from, sum, 0, W);
    T* out = (T*)a[1].p + i * OW;
    for (int64_t o = 0; o < OW; ++o) {
      const Columns& c = columns[o];
      A total = along(sum, c.from, c.to);
      if (ADAPTIVE) total = total / A(rows.count) / A(c.count);
      else total /= A(DIVISOR != 0 ? DIVISOR : rows.count * c.count);
      out[o] = kf_to<T>(total);
    }
  }
}
