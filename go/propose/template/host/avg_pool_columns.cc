// Average pooling, adaptive too, of planes whose rows are contiguous: down the window first, then along the row.
//
// Idea: the rows of a window are added up for the whole width, vectors at a time, into a buffer in L1; then each output adds its columns of
// the buffer. So long strides and windows that differ from one output to the next cost nothing more. Bound: bytes of input and output.
// Works for: any sizes with rows of stride 1, rows up to WIDTH elements. ADAPTIVE: windows from the sizes; else kernel, stride and padding.
// Parameters the tree may change: UNROLL (vectors of the width added together), KF_LANES, GRAIN.
// Numerics: sums in float (double for double) in another order than eager's.

// @include pool.h

// @include span.h

template <int U> KF_INLINE void add_rows(const T* p, int64_t pitch, int64_t rows, A* sum, int n) {
  V v[U];
  for (int u = 0; u < U; ++u) v[u] = V{};
  for (int64_t h = 0; h < rows; ++h, p += pitch)
    for (int u = 0; u < U; ++u) v[u] += n == L ? kf_load(p + u * L) : kf_load_n(p + u * L, n);
  for (int u = 0; u < U; ++u) kf_store(sum + u * L, v[u]);
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[3].i, H = a[4].i, W = a[5].i, OH = a[6].i, OW = a[7].i, sn = a[8].i, sc = a[9].i, sh = a[10].i;
  A sum[WIDTH + L];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = i / OH;
    const Span rows = span(i % OH, OH, SH, PH, KH, H);
    const T* x = (const T*)a[0].p + plane / C * sn + plane % C * sc + rows.from * sh;
    int64_t w = 0;
    for (; w + UNROLL * L <= W; w += UNROLL * L) add_rows<UNROLL>(x + w, sh, rows.to - rows.from, sum + w, L);
    for (; w < W; w += L) add_rows<1>(x + w, sh, rows.to - rows.from, sum + w, W - w < L ? int(W - w) : L);
    T* out = (T*)a[1].p + i * OW;
    for (int64_t o = 0; o < OW; ++o) {
      const Span columns = span(o, OW, SW, PW, KW, W);
      A total = 0;
      if (!ADAPTIVE && columns.to - columns.from == KW) for (int k = 0; k < KW; ++k) total += sum[columns.from + k];
      else for (int64_t k = columns.from; k < columns.to; ++k) total += sum[k];
      if (ADAPTIVE) total = total / A(rows.count) / A(columns.count);
      else total /= A(DIVISOR != 0 ? DIVISOR : rows.count * columns.count);
      out[o] = kf_to<T>(total);
    }
  }
}
