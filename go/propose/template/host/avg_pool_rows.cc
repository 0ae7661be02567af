// Average pooling of planes whose rows are contiguous, each window added up in eager's order.
//
// Idea: a vector of output columns takes the KH * KW elements of its windows from KH rows; at stride 2 even and odd columns are picked from
// the same loads. Bound: bytes of input and output.
// Works for: any sizes with rows of stride 1; kernel, stride and padding are constants. Best at column strides 1 and 2 and small kernels.
// Parameters the tree may change: ROWS (output rows of one piece of work, 0: all), AHEAD (prefetch the next piece), KF_LANES, GRAIN.
// Numerics: sums in float (double for double), one division, as eager: bitwise equal.

// @include pool.h

// @include row_window.h

// How many elements an output row or column divides by: those that exist, or (INCLUDE) also padding, not what ceil_mode adds beyond it.
KF_INLINE int64_t extent_of(int64_t o, int64_t stride, int64_t padding, int64_t kernel, int64_t size) {
  int64_t from = o * stride - padding, to = from + kernel;
  const int64_t lowest = INCLUDE ? -padding : 0, highest = INCLUDE ? size + padding : size;
  return (to < highest ? to : highest) - (from > lowest ? from : lowest);
}
struct Plane { const T* x; int64_t pitch, H; T* out; int64_t OW, ahead; };

template <bool SAFE> static void piece(const Plane& plane, const Block* blocks, const V* across, int64_t count, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; ++r) {
    const int64_t top = r * SH - PH;
    const A down = A(extent_of(r, SH, PH, KH, plane.H));
    for (int64_t i = 0; i < count; ++i) {
      const Block& b = blocks[i];
      V sum = {};
#pragma GCC unroll 16
      for (int h = 0; h < KH; ++h) {
        if (top + h < 0 || top + h >= plane.H) continue;
        const T* p = plane.x + (top + h) * plane.pitch;
        if (AHEAD && h >= KH - SH)
          for (int j = 0; j < L * SW; j += 64 / sizeof(T)) __builtin_prefetch(p + b.c * SW + plane.ahead + j);
        V w[LOADS];
#pragma GCC unroll 16
        for (int k = 0; k < LOADS; ++k) w[k] = (V)((I)b.load<SAFE>(p, k, A(0)) & b.keep[k]);
#pragma GCC unroll 16
        for (int k = 0; k < KW; ++k) sum += Block::column(w, k);
      }
      sum /= DIVISOR != 0 ? V{} + A(DIVISOR) : down * across[i];
      T* out = plane.out + r * plane.OW + b.c;
      if (b.n == L) kf_store(out, sum); else kf_store_n(out, sum, b.n);
    }
  }
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const T* x = (const T*)a[0].p;
  const int64_t N = a[2].i, C = a[3].i, H = a[4].i, W = a[5].i, OH = a[6].i, OW = a[7].i, sn = a[8].i, sc = a[9].i, sh = a[10].i;
  const int64_t extent = (N - 1) * sn + (C - 1) * sc + (H - 1) * sh + W;
  const int64_t rows = ROWS > 0 && ROWS < OH ? ROWS : OH, pieces = (OH + rows - 1) / rows, count = (OW + L - 1) / L;
  Block blocks[BLOCKS];
  V across[BLOCKS];
  for (int64_t i = 0; i < count; ++i) {
    blocks[i] = Block::make(i * L, W, OW);
    for (int l = 0; l < L; ++l) across[i][l] = A(extent_of(blocks[i].c + l, SW, PW, KW, W));
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = i / pieces, first = i % pieces * rows, last = first + rows < OH ? first + rows : OH;
    const int64_t in = plane / C * sn + plane % C * sc;
    const Plane p = {x + in, sh, H, (T*)a[1].p + plane * OH * OW, OW, pieces == 1 ? sc : rows * SH * sh};
    if (within(in, sh, H, first, last, blocks[count - 1], extent)) piece<false>(p, blocks, across, count, first, last);
    else piece<true>(p, blocks, across, count, first, last);
  }
}
