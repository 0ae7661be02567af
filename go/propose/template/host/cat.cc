// Cat: joins tensors along a dim. One launch for all of them.
//
// Idea: the elements of all inputs, one input after the other, are the work; a thread's part may span several. Each input is a copy into its
// slice of the output, whose dims are sorted by the output's strides and joined, so that with NCHW a whole image and with NHWC a pixel's
// channels are one row. Bound: copy of the bytes.
// Works for: any sizes and strides; elements are moved as bits.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), MOVE (rows by 0: memcpy, 1: code that is
// short for short rows).
// Numerics: exact.

// @include walk.h

// The first and the last SIZE bytes of a row of SIZE to 2 * SIZE bytes: all of it.
template <int SIZE> KF_INLINE void ends(char* out, const char* in, int64_t n) {
  char first[SIZE], last[SIZE];
  __builtin_memcpy(first, in, SIZE);
  __builtin_memcpy(last, in + n - SIZE, SIZE);
  __builtin_memcpy(out, first, SIZE);
  __builtin_memcpy(out + n - SIZE, last, SIZE);
}
KF_INLINE void move(ELEMENT* to, const ELEMENT* from, int64_t count) {
  char* out = (char*)to;
  const char* in = (const char*)from;
  int64_t n = count * sizeof(ELEMENT);
  if constexpr (MOVE == 0) {
    __builtin_memcpy(out, in, n);
  } else {
    for (; n > 128; n -= 64, in += 64, out += 64) __builtin_memcpy(out, in, 64);
    if (n >= 64) ends<64>(out, in, n);
    else if (n >= 32) ends<32>(out, in, n);
    else if (n >= 16) ends<16>(out, in, n);
    else if (n >= 8) ends<8>(out, in, n);
    else if (n >= 4) ends<4>(out, in, n);
    else if (n >= 2) ends<2>(out, in, n);
    else *out = *in;
  }
}

// args: the output, the inputs; the strides of the output; then for each input its sizes and its strides.
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const kf_arg* out = args + 1 + COUNT;
  ELEMENT* to = (ELEMENT*)args[0].p;
  int64_t start = 0;
  for (int k = 0; k < COUNT && start < end; ++k) {
    const kf_arg* size = out + (1 + 2 * k) * DIMS;
    const ELEMENT* from = (const ELEMENT*)args[1 + k].p;
    Loop<2> loop;
    int64_t count = 1;
    for (int d = 0; d < DIMS; ++d) {
      loop.dim(size[d].i, {out[d].i, size[DIMS + d].i});
      count *= size[d].i;
    }
    const int64_t b = begin > start ? begin - start : 0, e = end - start < count ? end - start : count;
    if (b < e) {
      loop.join();
      const int64_t s = loop.stride[0][loop.dims - 1], t = loop.stride[1][loop.dims - 1];
      loop.run(b, e, [&](int64_t m, int64_t n, const int64_t* offset) {
        for (int64_t r = 0; r < m; ++r) {
          ELEMENT* p = to + offset[0] + r * loop.next(0);
          const ELEMENT* q = from + offset[1] + r * loop.next(1);
          if (s == 1 && t == 1) move(p, q, n);
          else for (int64_t i = 0; i < n; ++i) p[i * s] = q[i * t];
        }
      });
    }
    start += count;
    to += size[DIM].i * out[DIM].i;
  }
}
