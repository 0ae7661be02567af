// Max pooling, with indices or without (INDICES), of planes whose rows are contiguous: values and indices exactly as eager gives them.
//
// Idea: vectors of output columns move down the plane. An input row is first reduced along itself (KW loads; at stride 2 even and odd columns
// are picked from the same loads), then the last KH reduced rows give an output row; rows that windows share are reduced once. The window's
// order of eager is kept, so ties take the first position. Bound: bytes of input, values and 64-bit indices, if any.
// Works for: any sizes with rows of stride 1; kernel, stride, padding and dilation are constants. Best at column strides 1 and 2.
// Parameters the tree may change: ORDER (0: a vector runs down all rows, its state in registers; 1: row by row, state in L1, memory in order),
// ROWS (output rows of one piece of work, 0: all), AHEAD (prefetch the next piece), STREAM (indices past the caches), KF_LANES, GRAIN.
// Numerics: comparisons only. The fast path ignores NaN but notices it (0 * x adds up to NaN, also for an infinity); then the piece is done
// again by the exact path: NaN wins over everything and the last one stays.

// @include pool.h

// @include row_window.h

// @include max_pool.h

constexpr int KEEP = DH == 1 && SH < KH ? KH - SH : 0;  // reduced rows that the next output row uses

// cap: infinity for the lanes of a load that exist, -infinity for others; skipped: columns of padding before a window's first column.
struct Columns : Block {
  V cap[LOADS];
  I skipped;
  Columns() = default;
  Columns(const Block& b) : Block(b) {
    for (int k = 0; k < LOADS; ++k) cap[k] = keep[k] ? V{} - low : V{} + low;
    skipped = lane < 0 ? (J(DW - 1) - lane) / J(DW) * J(DW) : I{};
  }
};
struct Plane {
  const T* x; int64_t pitch, H, W;
  T* out; int64_t* index; int64_t OW;
  int64_t ahead, out_ahead;  // elements from this piece to the next
  V seen;                    // NaN where a NaN or an infinity went by
};

// The best of row h for each window of the block. A row of padding loses to any other, but names the first position that eager looks at.
template <bool EXACT> KF_INLINE Best reduce_row(Plane& plane, const Columns& b, int64_t h, int64_t top) {
  if (h < 0 || h >= plane.H) return {V{} + low, b.skipped + J((top < 0 ? top + (DH - 1 - top) / DH * DH : top) * plane.W)};
  const T* p = plane.x + h * plane.pitch;
  if (AHEAD) for (int i = 0; i < L * SW; i += 64 / sizeof(T)) __builtin_prefetch(p + b.c * SW + plane.ahead + i);
  V w[LOADS];
#pragma GCC unroll 16
  for (int k = 0; k < LOADS; ++k) {
    w[k] = b.load<EXACT>(p, k, low);
    if constexpr (!EXACT) {
      plane.seen = kf_fma(w[k], V{}, plane.seen);
      w[k] = w[k] < b.cap[k] ? w[k] : b.cap[k];  // a minimum; selecting by a mask would become a masked load, which stalls on a cache miss
    }
  }
  Best a;
#pragma GCC unroll 16
  for (int k = 0; k < KW; ++k) {
    V u = Block::column(w, k);
    if (k == 0) a = {u, b.skipped}; else take<EXACT>(a, u, I{} + J(k * DW));
  }
  shift(a, I{} + J(h * plane.W));
  return a;
}
// Output row r of a block; a holds the rows that it shares with the row before, afterwards those for the next.
template <bool EXACT> KF_INLINE void output_row(Plane& plane, const Columns& b, Best* a, int64_t r) {
  const int64_t top = r * SH - PH, at = r * plane.OW + b.c;
  Best rows[KH];
#pragma GCC unroll 16
  for (int k = 0; k < KH; ++k) rows[k] = k < KEEP ? a[k] : reduce_row<EXACT>(plane, b, top + k * DH, top);
#pragma GCC unroll 16
  for (int k = 0; k < KEEP; ++k) a[k] = rows[k + SH];
  Best m = rows[0];
#pragma GCC unroll 16
  for (int k = 1; k < KH; ++k) take<EXACT>(m, rows[k]);
  shift(m, b.lane);
  if (AHEAD) {
    __builtin_prefetch(plane.out + at + plane.out_ahead, 1);
    for (int i = 0; INDICES && i < L; i += 8) __builtin_prefetch(plane.index + at + plane.out_ahead + i, 1);
  }
  put(plane.out + at, plane.index + at, m, b.n);
}
template <bool EXACT> static bool piece(Plane plane, const Columns* blocks, int64_t count, int64_t first, int64_t last) {
  Best state[ORDER ? BLOCKS : 1][KEEP + 1];
  auto begin = [&](const Columns& b, Best* a) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int k = 0; k < KEEP; ++k) a[k] = reduce_row<EXACT>(plane, b, first * SH - PH + k, first * SH - PH);
  };
  plane.seen = V{};
  if (ORDER) {
    for (int64_t i = 0; i < count; ++i) begin(blocks[i], state[i]);
    for (int64_t r = first; r < last; ++r)
      for (int64_t i = 0; i < count; ++i) output_row<EXACT>(plane, blocks[i], state[i], r);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const Columns b = blocks[i];
      begin(b, state[0]);
      for (int64_t r = first; r < last; ++r) output_row<EXACT>(plane, b, state[0], r);
    }
  }
  return kf_hsum(plane.seen) == 0;
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const T* x = (const T*)a[0].p;
  const int64_t N = a[3].i, C = a[4].i, H = a[5].i, W = a[6].i, OH = a[7].i, OW = a[8].i, sn = a[9].i, sc = a[10].i, sh = a[11].i;
  const int64_t extent = (N - 1) * sn + (C - 1) * sc + (H - 1) * sh + W;
  const int64_t rows = ROWS > 0 && ROWS < OH ? ROWS : OH, pieces = (OH + rows - 1) / rows, count = (OW + L - 1) / L;
  Columns blocks[BLOCKS];
  for (int64_t i = 0; i < count; ++i) blocks[i] = Block::make(i * L, W, OW);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = i / pieces, first = i % pieces * rows, last = first + rows < OH ? first + rows : OH;
    const int64_t in = plane / C * sn + plane % C * sc;
    Plane p = {x + in, sh, H, W, (T*)a[1].p + plane * OH * OW, (int64_t*)a[2].p + plane * OH * OW, OW,
               pieces == 1 ? sc : rows * SH * sh, rows * OW, V{}};
    const bool whole = within(in, sh, H, first, last, blocks[count - 1], extent);
    if (!whole || !piece<false>(p, blocks, count, first, last)) piece<true>(p, blocks, count, first, last);
  }
  if (STREAM) kf_stream_end();
}
