// Transpose: a copy whose output is contiguous along one dim and whose source is contiguous along another (NCHW to NHWC, x.t()).
//
// Idea: blocks of TILE x TILE elements are transposed in vector registers by log2(TILE) rounds of interleaving, so that both sides move whole
// vectors, and with 16 elements of 4 bytes whole cache lines. Blocks are taken in squares of SPAN x SPAN, so that lines and pages that two
// blocks share are still near. The last block of a dim is moved back to end with it: its elements are written twice. Rows a power of two apart
// share a few sets of every cache, so that a written line is evicted before the next block comes to it, and read again for that: STREAM writes
// whole lines past the caches, best with squares along the source's rows, which the hardware then follows. Bound: copy of the bytes.
// Works for: any strides; where no such pair of dims is (or one is shorter than TILE), element by element.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), TILE, SPAN, ORDER (0: squares along the output's rows
// first, 1: along the source's), AHEAD (elements of that walk by which the source is asked for early), STREAM.
// Numerics: bits are moved; with CONVERT each element is rounded once.

// @include walk.h

typedef IN Row __attribute__((vector_size(TILE * sizeof(IN))));
#if TILE == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif TILE == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

#if CONVERT
KF_INLINE OUT converted(IN x) { return kf_cast_bits<OUT>(kf_to<TO>(kf_of(kf_cast_bits<FROM>(x)))); }
KF_INLINE void put(OUT* p, Row r) { kf_store((TO*)p, kf_unpack((kf_raw<FROM>)r, (const FROM*)nullptr)); }
#else
KF_INLINE OUT converted(IN x) { return x; }
KF_INLINE void put(OUT* p, Row r) { __builtin_memcpy(p, &r, sizeof r); }
#endif
// A row that is a whole line, past the caches.
#if STREAM
KF_INLINE void line(OUT* p, Row r) { _mm512_stream_si512((__m512i*)p, (__m512i)r); }
#else
KF_INLINE void line(OUT* p, Row r) { put(p, r); }
#endif

// One block: TILE rows of the source, `from` apart, become TILE rows of the output, `to` apart.
template <bool LINES> KF_INLINE void block(OUT* out, int64_t to, const IN* in, int64_t from) {
  Row r[TILE], t[TILE];
  for (int i = 0; i < TILE; ++i) {
    if (AHEAD) __builtin_prefetch(in + i * from + AHEAD * (ORDER ? 1 : from));
    r[i] = kf_bytes<Row>(in + i * from);
  }
  for (int round = 1; round < TILE; round *= 2) {
    for (int i = 0; i < TILE / 2; ++i) {
      t[2 * i] = LOW(r[i], r[i + TILE / 2]);
      t[2 * i + 1] = HIGH(r[i], r[i + TILE / 2]);
    }
    for (int i = 0; i < TILE; ++i) r[i] = t[i];
  }
  for (int i = 0; i < TILE; ++i)
    if constexpr (LINES) line(out + i * to, r[i]); else put(out + i * to, r[i]);
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  OUT* out = (OUT*)args[0].p;
  const IN* in = (const IN*)args[1].p;
  const kf_arg* size = args + 2;  // then the strides of the output and of the source
  Loop<2> loop;
  int64_t count = 1;
  for (int d = 0; d < DIMS; ++d) {
    loop.dim(size[d].i, {size[DIMS + d].i, size[2 * DIMS + d].i});
    count *= size[d].i;
  }
  loop.join();
  const int last = loop.dims - 1;
  int other = last - 1;
  while (other >= 0 && loop.stride[1][other] != 1) --other;
  if (other < 0 || loop.stride[0][last] != 1 || loop.size[last] < TILE || loop.size[other] < TILE) {
    const int64_t to = loop.stride[0][last], from = loop.stride[1][last];
    return loop.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) {
      for (int64_t r = 0; r < m; ++r)
        for (int64_t i = 0; i < n; ++i) out[offset[0] + r * loop.next(0) + i * to] = converted(in[offset[1] + r * loop.next(1) + i * from]);
    });
  }
  // Squares: `last` and `other` shrink to numbers of squares; the thread's part of the elements is the same part of the squares.
  constexpr int64_t SQUARE = TILE * SPAN;
  const int64_t n = loop.size[last], m = loop.size[other], from = loop.stride[1][last], to = loop.stride[0][other];
  loop.size[last] = (n + SQUARE - 1) / SQUARE;
  loop.size[other] = (m + SQUARE - 1) / SQUARE;
  int64_t total = 1, at[DIMS + 1];
  for (int d = 0; d <= last; ++d) total *= loop.size[d];
  const int64_t first = (__int128(begin) * total + count - 1) / count, limit = (__int128(end) * total + count - 1) / count;
  for (int64_t s = first; s < limit; ++s) {
    int64_t rest = s, o = 0, i = 0;
    if (ORDER) at[other] = rest % loop.size[other], rest /= loop.size[other];
    for (int d = last; d >= 0; --d) {
      if (d != other || !ORDER) at[d] = rest % loop.size[d], rest /= loop.size[d];
      if (d == last || d == other) continue;
      o += at[d] * loop.stride[0][d];
      i += at[d] * loop.stride[1][d];
    }
    const int64_t a0 = at[last] * SQUARE, b0 = at[other] * SQUARE;
    for (int64_t b = b0; b < b0 + SQUARE && b < m; b += TILE)
      for (int64_t a = a0; a < a0 + SQUARE && a < n; a += TILE) {
        const int64_t x = a < n - TILE ? a : n - TILE, y = b < m - TILE ? b : m - TILE;
        OUT* q = out + o + x + y * to;
        if (STREAM && (uintptr_t(q) | to * sizeof(OUT)) % 64 == 0) block<true>(q, to, in + i + x * from + y, from);
        else block<false>(q, to, in + i + x * from + y, from);
      }
  }
  if (STREAM) kf_stream_end();
}
