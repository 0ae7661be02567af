// Upsample nearest: each output pixel is one input pixel. Output and input contiguous along W (NCHW) or along C (NHWC).
//
// Idea: the columns' sources are worked out once for a block of BLOCK columns, not once a pixel. Output rows with the same source row are the
// same row: with NCHW the second one is copied from the first, which is still in the cache. Columns that are just doubled are whole vectors, each
// interleaved with itself. With NHWC a pixel is one copy of C elements.
// Bound: one write of the output.
// Works for: any sizes, any strides. Elements are moved as bits; QUIET 1 and 2 are bfloat16 and float16, whose NaN eager makes quiet where it
// takes them through float: bfloat16's become one and the same.
// Parameters the tree may change: GRAIN (least output elements a thread takes; in the spec), BLOCK, REUSE (0: compute every row).
// Numerics: exact; indices are eager's, in float.

// The source of an output index. scale is 1 / the given factor, or 0 where none is given.
KF_INLINE int64_t source(int64_t i, int64_t in, int64_t out, float scale) {
  if (out == in) return i;
  if (out == 2 * in) return i >> 1;
  const float s = scale > 0 ? scale : float(in) / float(out);
  const int64_t at = int64_t(__builtin_floorf(float(i) * s));
  return at < in - 1 ? at : in - 1;
}

#if QUIET == 1
KF_INLINE ELEMENT quieted(ELEMENT x) { return (x & 0x7fff) > 0x7f80 ? ELEMENT(0x7fc0) : x; }
#elif QUIET == 2
KF_INLINE ELEMENT quieted(ELEMENT x) { return (x & 0x7fff) > 0x7c00 ? ELEMENT(x | 0x200) : x; }
#else
KF_INLINE ELEMENT quieted(ELEMENT x) { return x; }
#endif

// args: output, input; N, C, output's H and W, input's H and W; the output's strides; the input's; 1 / scale of H and of W.
// Eager moves bits where its kernel for channels inside runs: small images, and dense pixels of four channels or more.
KF_INLINE bool moves_bits(const kf_arg* args) {
  const int64_t n = args[2].i, c = args[3].i, oh = args[4].i, ow = args[5].i, ih = args[6].i, iw = args[7].i;
  const kf_arg* from = args + 12;
  const bool dense = from[1].i == 1 && (iw == 1 || from[3].i == c) && (ih == 1 || from[2].i == c * iw) && (n == 1 || from[0].i == c * iw * ih);
  return QUIET == 0 || oh + ow <= 128 || (c >= 4 && dense);
}
template <bool BITS> KF_INLINE void rows(int64_t begin, int64_t end, const kf_arg* args) {
  const int64_t channels = args[3].i, oh = args[4].i, ow = args[5].i, ih = args[6].i, iw = args[7].i;
  const kf_arg *to = args + 8, *from = args + 12;
  const float sh = float(args[16].f), sw = float(args[17].f);
  int32_t column[BLOCK];
  for (int64_t w0 = 0; w0 < ow; w0 += BLOCK) {
    const int64_t n = ow - w0 < BLOCK ? ow - w0 : BLOCK;
    for (int64_t w = 0; w < n; ++w) column[w] = int32_t(source(w0 + w, iw, ow, sw));
    // The work is rows: of an image with NHWC, of a plane with NCHW.
    const int64_t planes = LAST ? 1 : channels;
    int64_t before = -1, plane = -1;
    const ELEMENT* same = nullptr;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t h = row % oh, p = row / oh, image = p / planes, c = p % planes, y = source(h, ih, oh, sh);
      ELEMENT* out = (ELEMENT*)args[0].p + image * to[0].i + c * to[1].i + h * to[2].i + w0 * to[3].i;
      const ELEMENT* in = (const ELEMENT*)args[1].p + image * from[0].i + c * from[1].i + y * from[2].i;
      if constexpr (LAST) {
        for (int64_t w = 0; w < n; ++w) {
          ELEMENT* q = out + w * to[3].i;
          const ELEMENT* r = in + column[w] * from[3].i;
          if (BITS && to[1].i == 1 && from[1].i == 1) __builtin_memcpy(q, r, channels * sizeof(ELEMENT));
          else for (int64_t k = 0; k < channels; ++k) q[k * to[1].i] = BITS ? r[k * from[1].i] : quieted(r[k * from[1].i]);
        }
      } else if (to[3].i != 1 || from[3].i != 1) {
        for (int64_t w = 0; w < n; ++w) out[w * to[3].i] = BITS ? in[column[w] * from[3].i] : quieted(in[column[w] * from[3].i]);
      } else if (REUSE && p == plane && y == before) {
        __builtin_memcpy(out, same, n * sizeof(ELEMENT));
      } else {
        if (ow == 2 * iw) {  // BLOCK is even
          for (int64_t w = 0; w < n / 2; ++w) out[2 * w] = out[2 * w + 1] = BITS ? in[w0 / 2 + w] : quieted(in[w0 / 2 + w]);
        } else {
          for (int64_t w = 0; w < n; ++w) out[w] = BITS ? in[column[w]] : quieted(in[column[w]]);
        }
        same = out;
        before = y;
        plane = p;
      }
    }
  }
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  if (moves_bits(args)) rows<true>(begin, end, args); else rows<false>(begin, end, args);
}
