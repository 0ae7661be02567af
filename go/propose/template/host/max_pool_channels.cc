// Max pooling, with indices or without (INDICES), where channels are contiguous: values and indices, bitwise as eager.
//
// Idea: UNROLL vectors of channels of one output position stay in registers while its window goes by, in eager's order, so ties take the
// first position. Bound: bytes of input, values and 64-bit indices, if any.
// Works for: any sizes with channels of stride 1; kernel, stride, padding and dilation are constants.
// Parameters the tree may change: UNROLL, AHEAD (input positions to prefetch along a row), STREAM (indices past the caches), KF_LANES, GRAIN.
// Numerics: comparisons only. The fast path ignores NaN but notices it (0 * x adds up to NaN, also for an infinity); then the row is done
// again by the exact path: NaN wins over everything and the last one stays.

// @include pool.h

// @include max_pool.h

struct Window { const T* x; int64_t rows, columns, down, right, first, W; };  // of one output position: its valid part

KF_INLINE V load(const T* p, int n) { return n == L ? kf_load(p) : kf_load_n(p, n); }
// U vectors of channels at c; n lanes of the last one count. FULL: nothing of the window is padding.
template <bool EXACT, bool FULL, int U> KF_INLINE V channels(const Window& w, int64_t c, int n, T* out, int64_t* index) {
  V seen = {};
  Best best[U];
  for (int u = 0; u < U; ++u) best[u] = {V{} + low, I{} + J(w.first)};
  const int64_t rows = FULL ? KH : w.rows, columns = FULL ? KW : w.columns;
#pragma GCC unroll 8
  for (int64_t h = 0; h < rows; ++h) {
#pragma GCC unroll 8
    for (int64_t k = 0; k < columns; ++k) {
      const T* p = w.x + h * w.down + k * w.right + c;
      const I here = I{} + J(w.first + h * DH * w.W + k * DW);
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u) {
        V v = load(p + u * L, u == U - 1 ? n : L);
        if constexpr (!EXACT) seen = kf_fma(v, V{}, seen);
        take<EXACT>(best[u], v, here);
      }
    }
  }
  for (int u = 0; u < U; ++u) put(out + c + u * L, index + c + u * L, best[u], u == U - 1 ? n : L);
  return seen;
}
template <bool EXACT, bool FULL> KF_INLINE V position(const Window& w, int64_t C, T* out, int64_t* index) {
  V seen = {};
  int64_t c = 0;
  for (; c + UNROLL * L <= C; c += UNROLL * L) seen += channels<EXACT, FULL, UNROLL>(w, c, L, out, index);
  for (; c + L <= C; c += L) seen += channels<EXACT, FULL, 1>(w, c, L, out, index);
  if (c < C && C >= L) seen += channels<EXACT, FULL, 1>(w, C - L, L, out, index);  // overlaps the vector before
  else if (c < C) seen += channels<EXACT, FULL, 1>(w, c, int(C - c), out, index);
  return seen;
}
struct Shape { int64_t C, H, W, OW, sh, sw; };
// An output row; x is the image, out and index the row. false: a NaN or an infinity went by.
template <bool EXACT> static bool output_row(const Shape& s, const T* x, int64_t r, T* out, int64_t* index) {
  auto clip = [](int64_t o, int64_t stride, int64_t padding, int64_t kernel, int64_t dilation, int64_t size, int64_t& count) {
    int64_t from = o * stride - padding, to = from + (kernel - 1) * dilation + 1;
    if (from < 0) from += (dilation - 1 - from) / dilation * dilation;
    count = ((to < size ? to : size) - from + dilation - 1) / dilation;
    return from;
  };
  V seen = {};
  Window w;
  w.down = DH * s.sh, w.right = DW * s.sw, w.W = s.W;
  const int64_t h = clip(r, SH, PH, KH, DH, s.H, w.rows);
  for (int64_t o = 0; o < s.OW; ++o) {
    const int64_t k = clip(o, SW, PW, KW, DW, s.W, w.columns);
    w.x = x + h * s.sh + k * s.sw;
    w.first = h * s.W + k;
    if (AHEAD)
      for (int64_t row = 0; row < w.rows; ++row)
        for (int64_t c = 0; c < s.C * SW; c += 64 / sizeof(T)) __builtin_prefetch(w.x + row * w.down + AHEAD * s.sw + c);
    if (w.rows == KH && w.columns == KW) seen += position<EXACT, true>(w, s.C, out + o * s.C, index + o * s.C);
    else seen += position<EXACT, false>(w, s.C, out + o * s.C, index + o * s.C);
  }
  return EXACT || kf_hsum(seen) == 0;
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t OH = a[6].i, sn = a[8].i;
  const Shape s = {a[3].i, a[4].i, a[5].i, a[7].i, a[9].i, a[10].i};
  for (int64_t i = begin; i < end; ++i) {
    const T* x = (const T*)a[0].p + i / OH * sn;
    T* out = (T*)a[1].p + i * s.OW * s.C;
    int64_t* index = (int64_t*)a[2].p + i * s.OW * s.C;
    if (!output_row<false>(s, x, i % OH, out, index)) output_row<true>(s, x, i % OH, out, index);
  }
  if (STREAM) kf_stream_end();
}
