// Average pooling, adaptive too, where channels are contiguous: each window added up in eager's order.
//
// Idea: UNROLL vectors of channels of one output position stay in registers while its window goes by. Bound: bytes of input and output.
// Works for: any sizes with channels of stride 1. ADAPTIVE: windows from the sizes; else kernel, stride and padding.
// Parameters the tree may change: UNROLL, AHEAD (input positions to prefetch along a row), KF_LANES, GRAIN.
// Numerics: sums in float (double for double), one division, as eager's vectors.

// @include pool.h

// @include span.h

struct Window { const T* x; int64_t rows, columns, down, right; A divisor; };
template <int U> KF_INLINE void channels(const Window& w, int64_t c, int n, T* out) {
  V sum[U];
  for (int u = 0; u < U; ++u) sum[u] = V{};
  for (int64_t h = 0; h < w.rows; ++h)
    for (int64_t k = 0; k < w.columns; ++k) {
      const T* p = w.x + h * w.down + k * w.right + c;
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u) sum[u] += n == L ? kf_load(p + u * L) : kf_load_n(p + u * L, n);
    }
  for (int u = 0; u < U; ++u) {
    sum[u] /= w.divisor;
    if (n == L) kf_store(out + c + u * L, sum[u]); else kf_store_n(out + c + u * L, sum[u], n);
  }
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[2].i, H = a[3].i, W = a[4].i, OH = a[5].i, OW = a[6].i, sn = a[7].i, sh = a[8].i, sw = a[9].i;
  for (int64_t i = begin; i < end; ++i) {
    const Span rows = span(i % OH, OH, SH, PH, KH, H);
    const T* x = (const T*)a[0].p + i / OH * sn + rows.from * sh;
    for (int64_t o = 0; o < OW; ++o) {
      const Span columns = span(o, OW, SW, PW, KW, W);
      const Window w = {x + columns.from * sw, rows.to - rows.from, columns.to - columns.from, sh, sw,
                        A(!ADAPTIVE && DIVISOR != 0 ? DIVISOR : rows.count * columns.count)};
      T* out = (T*)a[1].p + (i * OW + o) * C;
      if (AHEAD)
        for (int64_t row = 0; row < w.rows; ++row)
          for (int64_t c = 0; c < C * (ADAPTIVE ? w.columns : SW); c += 64 / sizeof(T)) __builtin_prefetch(w.x + row * sh + AHEAD * sw + c);
      int64_t c = 0;
      for (; c + UNROLL * L <= C; c += UNROLL * L) channels<UNROLL>(w, c, L, out);
      for (; c < C; c += L) channels<1>(w, c, C - c < L ? int(C - c) : L, out);
    }
  }
}
