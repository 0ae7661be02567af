// Upsample bilinear: each output pixel from four input pixels. Output and input contiguous along W (NCHW) or along C (NHWC).
//
// Idea: the columns' sources and weights are worked out once for a block of BLOCK columns. With NCHW two input rows are first joined along H
// into a row of sums, by whole vectors, and only that row is gathered from along W. With NHWC all four pixels are vectors of channels.
// Bound: one write of the output.
// Works for: any sizes, any strides.
// Parameters the tree may change: GRAIN (least output elements a thread takes; in the spec), BLOCK, KF_LANES.
// Numerics: indices and weights are eager's, in C (float; double for double), fused as eager's; sums in C, rounded once.

using V = kf_v<C>;
constexpr int W = kf_lanes<C>;

struct Source {
  int64_t low, high;
  C a, b;  // weights of low and high
};
KF_INLINE Source source(int64_t i, int64_t in, int64_t out, double scale) {
  if (out == in) return {i, i, C(1), C(0)};
  C x;
  if (ALIGN) {
    x = (out > 1 ? C(in - 1) / C(out - 1) : C(0)) * C(i);
  } else {
    x = kf_fma(scale > 0 ? C(scale) : C(in) / C(out), C(i) + C(0.5), C(-0.5));
    x = x < 0 ? C(0) : x;
  }
  int64_t low = int64_t(__builtin_floorf(float(x)));
  low = low < in - 1 ? low : in - 1;
  C b = x - C(low);
  b = b < 0 ? C(0) : b > 1 ? C(1) : b;
  return {low, low + (low < in - 1), C(1) - b, b};
}
KF_INLINE C one(const ELEMENT* p) { return kf_of(*p); }

// args: output, input; N, C, output's H and W, input's H and W; the output's strides; the input's; 1 / scale of H and of W.
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const int64_t channels = args[3].i, oh = args[4].i, ow = args[5].i, ih = args[6].i, iw = args[7].i;
  const kf_arg *to = args + 8, *from = args + 12;
  const int64_t planes = LAST ? 1 : channels;
  Source column[BLOCK];
  C joined[2 * BLOCK];
  for (int64_t w0 = 0; w0 < ow; w0 += BLOCK) {
    const int64_t n = ow - w0 < BLOCK ? ow - w0 : BLOCK;
    for (int64_t w = 0; w < n; ++w) column[w] = source(w0 + w, iw, ow, args[17].f);
    const int64_t first = column[0].low, wide = column[n - 1].high + 1 - first;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t h = row % oh, p = row / oh, image = p / planes, c = p % planes;
      const Source y = source(h, ih, oh, args[16].f);
      ELEMENT* out = (ELEMENT*)args[0].p + image * to[0].i + c * to[1].i + h * to[2].i + w0 * to[3].i;
      const ELEMENT* in = (const ELEMENT*)args[1].p + image * from[0].i + c * from[1].i;
      const ELEMENT *low = in + y.low * from[2].i, *high = in + y.high * from[2].i;
      if constexpr (LAST) {
        for (int64_t w = 0; w < n; ++w) {
          const Source x = column[w];
          const ELEMENT *p00 = low + x.low * from[3].i, *p01 = low + x.high * from[3].i, *p10 = high + x.low * from[3].i, *p11 = high + x.high * from[3].i;
          ELEMENT* q = out + w * to[3].i;
          int64_t k = 0;
          if (to[1].i == 1 && from[1].i == 1) {
            const V a = kf_set<C>(x.a), b = kf_set<C>(x.b), d = kf_set<C>(y.a), e = kf_set<C>(y.b);
            for (; k + W <= channels; k += W)
              kf_store(q + k, d * kf_fma(kf_load(p01 + k), b, kf_load(p00 + k) * a) + e * kf_fma(kf_load(p11 + k), b, kf_load(p10 + k) * a));
          }
          for (; k < channels; ++k) {
            const int64_t f = k * from[1].i;
            q[k * to[1].i] = kf_to<ELEMENT>(y.a * kf_fma(one(p01 + f), x.b, one(p00 + f) * x.a) + y.b * kf_fma(one(p11 + f), x.b, one(p10 + f) * x.a));
          }
        }
      } else if (from[3].i == 1 && wide <= 2 * BLOCK) {
        const V a = kf_set<C>(y.a), b = kf_set<C>(y.b);
        int64_t i = 0;
        for (; i + W <= wide; i += W) kf_store(joined + i, kf_fma(kf_load(high + first + i), b, kf_load(low + first + i) * a));
        for (; i < wide; ++i) joined[i] = kf_fma(one(high + first + i), y.b, one(low + first + i) * y.a);
        for (int64_t w = 0; w < n; ++w)
          out[w * to[3].i] = kf_to<ELEMENT>(kf_fma(joined[column[w].high - first], column[w].b, joined[column[w].low - first] * column[w].a));
      } else {
        for (int64_t w = 0; w < n; ++w) {
          const Source x = column[w];
          const int64_t l = x.low * from[3].i, r = x.high * from[3].i;
          out[w * to[3].i] = kf_to<ELEMENT>(y.a * kf_fma(one(low + r), x.b, one(low + l) * x.a) + y.b * kf_fma(one(high + r), x.b, one(high + l) * x.a));
        }
      }
    }
  }
}
