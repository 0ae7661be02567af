// Max pool, with indices or without (INDICES), of half types and planes whose rows are contiguous, by keys: values and indices exactly as eager gives them.
//
// Idea: as max_pool_bands, a thread has the VEC / SW outputs under VEC columns, ROWS times below each other, but it compares numbers of 32 bits: a value, as a
// signed number of 16 bits in the same order, and below it the place in the plane, counted from the end. One maximum then takes the larger value, of equal
// ones the first, and its place. The rows of the next outputs are on their way while a row of outputs is made. Bound: bytes of input, values and 64-bit
// indices, if any.
// Works for: as max_pool_bands, planes of at most 65,536 elements.
// Parameters the tree may change: THREADS, VEC, ROWS (outputs below each other).
// Numerics: comparisons only. A NaN wins over everything; only where there is one, the last of its window is looked for. Both zeros become the positive one.

// @include rows.cuh

// @include bands.cuh

constexpr int KEPT = KH > SH ? KH - SH : 0, NEW = KH - KEPT;                  // rows that the next window below has too; the others
constexpr int NOTHING = -0x7fffffff - 1, NOT_A_NUMBER = 0x7fff0000;

// A pair of half elements as two signed numbers in the order of their values; and back.
KF_INLINE uint32_t ordered(uint32_t pair) {
  const uint32_t signs = pair & 0x80008000u;
  return pair ^ (signs - (signs >> 15));
}
KF_INLINE int larger(int a, int b) { return a > b ? a : b; }

using Words = kf_words<T, VEC>;
struct Line { Words::word own; uint32_t beside[PW + RIGHT > 0 ? PW + RIGHT : 1]; };  // as it came
KF_INLINE bool there(const Band& b, int y) { return uint32_t(y) < uint32_t(b.height); }
// The k-th column beside the thread's own ones, from the first of those on; and whether there is one.
KF_INLINE constexpr int beside(int k) { return k < PW ? k - PW : VEC + k - PW; }
KF_INLINE bool has(const Band& b, int k) { return uint32_t(b.left + beside(k)) < uint32_t(b.width); }
// Line y, which begins at p for this thread: nothing where it is not of the plane.
KF_INLINE void load(Line& line, const T* p, const Band& b, int y) {
  if (there(b, y)) {
    if (b.aligned) {
      line.own = *(const Words::word*)p;
    } else if constexpr (SHIFTED) {
      Words w;
#pragma unroll
      for (int e = 0; e < VEC; ++e) w.vec[e] = p[e];
      line.own = w.words[0];
    }
#pragma unroll
    for (int k = 0; k < PW + RIGHT; ++k)
      if (has(b, k)) line.beside[k] = p[beside(k)].bits;
  }
}
// The keys of a line, folded across the windows.
KF_INLINE void fold(int (&best)[OUTS], const Line& line, const Band& b, int y) {
  int key[PW + VEC + RIGHT];
  const int end = 0xffff - (y * b.width + b.left);  // the place of the first own column, counted from the end
  union { Words::word own; uint32_t pairs[VEC / 2]; } w;
  w.own = line.own;
#pragma unroll
  for (int i = 0; i < VEC / 2; ++i) {
    const uint32_t pair = ordered(kf_canonical(w.pairs[i], (T*)nullptr));
    key[PW + 2 * i] = int(pair << 16) + (end - 2 * i);
    key[PW + 2 * i + 1] = int(pair & 0xffff0000u) + (end - 2 * i - 1);
  }
#pragma unroll
  for (int k = 0; k < PW + RIGHT; ++k) {
    key[PW + beside(k)] = has(b, k) ? int(ordered(kf_canonical(line.beside[k], (T*)nullptr)) << 16) + (end - beside(k)) : NOTHING;
  }
#pragma unroll
  for (int o = 0; o < OUTS; ++o) {
    best[o] = key[o * SW];
#pragma unroll
    for (int w = 1; w < KW; ++w) best[o] = larger(best[o], key[o * SW + w]);
    if (!there(b, y)) best[o] = NOTHING;
  }
}
// The place of the last NaN of a window.
KF_INLINE int last_of(const Band& b, int top, int left) {
  int place = 0;
#pragma unroll 1
  for (int y = top > 0 ? top : 0; y < top + KH && y < b.height; ++y)
#pragma unroll 1
    for (int z = left > 0 ? left : 0; z < left + KW && z < b.width; ++z) {
      const A v = kf_of(b.p[int64_t(y) * b.row + (z - b.left)]);
      if (v != v) place = y * b.width + z;
    }
  return place;
}
KF_INLINE void write(T* out, int64_t* index, const int (&best)[OUTS], const Band& b, int y, bool aligned) {
  union { kf_vec<T, OUTS> vec; uint32_t pairs[(OUTS + 1) / 2]; } values;
#pragma unroll
  for (int o = 0; o < OUTS; o += 2) {
    const int next = o + 1 < OUTS ? o + 1 : o;
    values.pairs[o / 2] = ordered(uint32_t(best[o]) >> 16 | (uint32_t(best[next]) & 0xffff0000u));
  }
  if (aligned) {
    kf_store(out, values.vec);
  } else if constexpr (SHIFTED) {
#pragma unroll
    for (int o = 0; o < OUTS; ++o) out[o] = values.vec[o];
  }
  if constexpr (INDICES) {
    kf_vec<int64_t, OUTS> where;
    int most = best[0];
#pragma unroll
    for (int o = 0; o < OUTS; ++o) where[o] = ~best[o] & 0xffff, most = larger(most, best[o]);
    if (most >= NOT_A_NUMBER) {
#pragma unroll
      for (int o = 0; o < OUTS; ++o)
        if (best[o] >= NOT_A_NUMBER) where[o] = last_of(b, y, b.left - PW + o * SW);
    }
    put<OUTS>(index, where, aligned);
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @include bands_main.cuh
  const int end = int(first + ROWS < height_out ? first + ROWS : height_out);
  const T* p = b.p + int64_t(y) * b.row;
  int kept[KEPT > 0 ? KEPT : 1][OUTS];
  Line before[KEPT > 0 ? KEPT : 1], ahead[NEW];
#pragma unroll
  for (int j = 0; j < KEPT; ++j) load(before[j], p + j * b.row, b, y + j);
#pragma unroll
  for (int j = 0; j < NEW; ++j) load(ahead[j], p + (KEPT + j) * b.row, b, y + KEPT + j);
#pragma unroll
  for (int j = 0; j < KEPT; ++j) fold(kept[j], before[j], b, y + j);
#pragma unroll 1
  for (int r = int(first); r < end; ++r, y += SH, at += width_out) {
    Line now[NEW];
#pragma unroll
    for (int j = 0; j < NEW; ++j) now[j] = ahead[j];
    p += SH * b.row;
    if (r + 1 < end) {
#pragma unroll
      for (int j = 0; j < NEW; ++j) load(ahead[j], p + (KEPT + j) * b.row, b, y + SH + KEPT + j);
    }
    int lines[NEW][OUTS], best[OUTS];
#pragma unroll
    for (int j = 0; j < NEW; ++j) fold(lines[j], now[j], b, y + KEPT + j);
#pragma unroll
    for (int o = 0; o < OUTS; ++o) {
      best[o] = lines[0][o];
#pragma unroll
      for (int j = 1; j < NEW; ++j) best[o] = larger(best[o], lines[j][o]);
#pragma unroll
      for (int j = 0; j < KEPT; ++j) best[o] = larger(best[o], kept[j][o]);
#pragma unroll
      for (int j = 0; j < KEPT; ++j) kept[j][o] = j + SH < KEPT ? kept[j + SH < KEPT ? j + SH : 0][o] : lines[j + SH < KEPT ? 0 : j + SH - KEPT][o];
    }
    write(out + at, index + at, best, b, y, aligned_out);
  }
}
