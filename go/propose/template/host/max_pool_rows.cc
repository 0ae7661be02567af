// Max pooling with indices of planes whose rows are contiguous: values and indices exactly as eager gives them.
//
// Idea: vectors of output columns move down the plane. An input row is first reduced along itself (KW loads; at stride 2 even and odd columns
// are picked from the same loads), then the last KH reduced rows give an output row; rows that windows share are reduced once. The window's
// order of eager is kept, so ties take the first position. Bound: bytes of input, values and 64-bit indices.
// Works for: any sizes with rows of stride 1; kernel, stride, padding and dilation are constants. Best at column strides 1 and 2.
// Parameters the tree may change: ORDER (0: a vector runs down all rows, its state in registers; 1: row by row, state in L1, memory in order),
// ROWS (output rows of one piece of work, 0: all), AHEAD (prefetch the next piece), STREAM (indices past the caches), KF_LANES, GRAIN.
// Numerics: comparisons only. The fast path ignores NaN but notices it (0 * x adds up to NaN, also for an infinity); then the piece is done
// again by the exact path: NaN wins over everything and the last one stays.

using T = IN;
using A = kf_acc<T>;
using V = kf_v<A>;
using I = kf_v_of<A>::bits;  // lanes of a position in the plane
using J = decltype(+I{}[0]);
constexpr int L = kf_lanes<A>;
constexpr A low = -A(__builtin_inff());
constexpr bool PAIRS = SW == 2 && DW == 1;
constexpr int LOADS = PAIRS ? (KW + 1) / 2 * 2 : KW;                                               // of a row, for L output columns
constexpr int APART = PAIRS ? 1 : SW;                                                              // columns between two lanes of a load
constexpr int REACH = PAIRS ? 2 * L + (KW - 1) / 2 * 2 : (L - 1) * SW + (KW - 1) * DW + 1;         // columns that the loads touch
constexpr int KEEP = DH == 1 && SH < KH ? KH - SH : 0;                                             // reduced rows that the next output row uses
constexpr int begins(int k) { return PAIRS ? k / 2 * 2 + k % 2 * L : k * DW; }                     // column of load k's first lane

KF_INLINE I iota() { I i; for (int l = 0; l < L; ++l) i[l] = l; return i; }

struct Best { V v; I i; };
template <bool EXACT> KF_INLINE void take(Best& a, V w, I j) {
  auto better = w > a.v;
  if constexpr (EXACT) better |= w != w;
  a.v = better ? w : a.v;
  a.i = better ? j : a.i;
}

// L output columns from column c on. cap: infinity for the lanes of a load that are columns of the plane, -infinity for others; skipped: columns of padding before a window's first.
struct Block { int64_t c; int n; V cap[LOADS]; I skipped, lane; };
static Block make_block(int64_t c, int64_t W, int64_t OW) {
  Block b;
  b.c = OW - c < L && OW >= L ? OW - L : c;  // the last block overlaps the one before it
  b.n = OW < L ? int(OW) : L;
  const int64_t w = b.c * SW - PW;
  for (int k = 0; k < LOADS; ++k) {
    I column = iota() * J(APART) + J(w + begins(k));
    b.cap[k] = (column >= 0) & (column < J(W)) ? -low : low;
  }
  b.lane = iota() * J(SW) + J(w);
  b.skipped = b.lane < 0 ? (J(DW - 1) - b.lane) / J(DW) * J(DW) : I{};
  return b;
}

struct Plane {
  const T* x; int64_t pitch, H, W;
  T* out; int64_t* index; int64_t OW;
  int64_t ahead, out_ahead;  // elements from this piece to the next
  V seen;                    // NaN where a NaN or an infinity went by
};

template <bool EXACT> KF_INLINE V load(const T* p, const Block& b, int k, Plane& plane) {
  V v;
  if constexpr (EXACT) {
    for (int l = 0; l < L; ++l) v[l] = b.cap[k][l] > 0 ? A(kf_of(p[l * APART])) : low;
    return v;
  }
  if constexpr (APART == 1) v = kf_load(p); else for (int l = 0; l < L; ++l) v[l] = kf_of(p[l * APART]);
  plane.seen = kf_fma(v, V{}, plane.seen);
  return v < b.cap[k] ? v : b.cap[k];
}
// The best of row h for each window of the block. A row of padding loses to any other, but names the first position that eager looks at.
template <bool EXACT> KF_INLINE Best reduce_row(Plane& plane, const Block& b, int64_t h, int64_t top) {
  if (h < 0 || h >= plane.H) return {V{} + low, b.skipped + J((top < 0 ? top + (DH - 1 - top) / DH * DH : top) * plane.W)};
  const T* p = plane.x + h * plane.pitch + b.c * SW - PW;
  if (AHEAD) for (int i = 0; i < L * SW; i += 64 / sizeof(T)) __builtin_prefetch(p + plane.ahead + i);
  V w[LOADS];
#pragma GCC unroll 16
  for (int k = 0; k < LOADS; ++k) w[k] = load<EXACT>(p + begins(k), b, k, plane);
  Best a;
#pragma GCC unroll 16
  for (int k = 0; k < KW; ++k) {
    V u = w[k < LOADS ? k : 0];
    if constexpr (PAIRS) u = __builtin_shuffle(w[k / 2 * 2], w[k / 2 * 2 + 1], iota() * 2 + k % 2);
    if (k == 0) a = {u, b.skipped}; else take<EXACT>(a, u, I{} + J(k * DW));
  }
  a.i += J(h * plane.W);
  return a;
}
KF_INLINE void put(const Plane& plane, int64_t at, const Best& m, int n) {
  if (n == L) kf_store(plane.out + at, m.v); else kf_store_n(plane.out + at, m.v, n);
  constexpr int D = kf_lanes<double>;
  typedef J part __attribute__((vector_size(D * sizeof(J))));
  part parts[L / D];
  __builtin_memcpy(parts, &m.i, sizeof m.i);
  for (int h = 0; h < L / D; ++h) {
    double* p = (double*)plane.index + at + h * D;
    kf_f64 bits = (kf_f64)__builtin_convertvector(parts[h], kf_i64);
    if (n - h * D >= D) {
      if (STREAM && uintptr_t(p) % sizeof bits == 0) kf_stream(p, bits); else kf_store(p, bits);
    } else if (n > h * D) kf_store_n(p, bits, n - h * D);
  }
}
// Output row r of a block; a holds the rows that it shares with the row before, afterwards those for the next.
template <bool EXACT> KF_INLINE void output_row(Plane& plane, const Block& b, Best* a, int64_t r) {
  const int64_t top = r * SH - PH, at = r * plane.OW + b.c;
  Best rows[KH];
#pragma GCC unroll 16
  for (int k = 0; k < KH; ++k) rows[k] = k < KEEP ? a[k] : reduce_row<EXACT>(plane, b, top + k * DH, top);
#pragma GCC unroll 16
  for (int k = 0; k < KEEP; ++k) a[k] = rows[k + SH];
  Best m = rows[0];
#pragma GCC unroll 16
  for (int k = 1; k < KH; ++k) take<EXACT>(m, rows[k].v, rows[k].i);
  m.i += b.lane;
  if (AHEAD) {
    __builtin_prefetch(plane.out + at + plane.out_ahead, 1);
    for (int i = 0; i < L; i += 8) __builtin_prefetch(plane.index + at + plane.out_ahead + i, 1);
  }
  put(plane, at, m, b.n);
}
template <bool EXACT> static bool piece(Plane plane, const Block* blocks, int64_t count, int64_t first, int64_t last) {
  Best state[ORDER ? BLOCKS : 1][KEEP + 1];
  auto begin = [&](const Block& b, Best* a) __attribute__((always_inline)) {
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
      const Block b = blocks[i];
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
  Block blocks[BLOCKS];
  for (int64_t i = 0; i < count; ++i) blocks[i] = make_block(i * L, W, OW);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t plane = i / pieces, first = i % pieces * rows, last = first + rows < OH ? first + rows : OH;
    const int64_t in = plane / C * sn + plane % C * sc;
    Plane p = {x + in, sh, H, W, (T*)a[1].p + plane * OH * OW, (int64_t*)a[2].p + plane * OH * OW, OW,
               pieces == 1 ? sc : rows * SH * sh, rows * OW, V{}};
    // The fast path reads whole vectors: beyond a row, never beyond the tensor.
    const int64_t top = first * SH - PH, bottom = (last - 1) * SH - PH + (KH - 1) * DH;
    const int64_t from = in + (top > 0 ? top : 0) * sh - PW, to = in + (bottom < H ? bottom : H - 1) * sh + blocks[count - 1].c * SW - PW + REACH;
    if (from < 0 || to > extent || !piece<false>(p, blocks, count, first, last)) piece<true>(p, blocks, count, first, last);
  }
  if (STREAM) kf_stream_end();
}
