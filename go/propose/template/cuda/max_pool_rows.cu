// Max pool, with indices or without (INDICES), of planes whose rows are contiguous: values and indices exactly as eager gives them.
//
// Idea: a thread has ROWS outputs below each other and reduces each input row that their windows share once; neighbouring threads take
// neighbouring columns, so that their windows meet in the L1 and stores are whole lines. Bound: bytes of input, values and 64-bit indices, if any.
// Works for: any sizes with rows of stride 1; kernel, stride, padding and dilation are constants.
// Parameters the tree may change: THREADS, ROWS.
// Numerics: comparisons only. NaN wins over everything and the last one stays; else the first of equal ones.

// @include pool.cuh

struct Best { A value; int index; };
KF_INLINE void take(Best& a, A value, int index) {
  if (value > a.value || value != value) a.value = value, a.index = index;
}
constexpr int SPAN = (ROWS - 1) * SH + (KH - 1) * DH + 1;  // input rows below ROWS outputs
constexpr int AT_ONCE = SPAN * KW <= 64 ? SPAN : 1, WIDTH_AT_ONCE = KW <= 64 ? KW : 1;
// Whether input row j is one of the window's of output r.
KF_INLINE constexpr bool meets(int j, int r) { return j >= r * SH && (j - r * SH) % DH == 0 && (j - r * SH) / DH < KH; }

struct Plane { const T* x; int height, width; INDEX row_stride; };
// The best of the windows of ROWS outputs whose first element is at (top, left). INSIDE: all their elements are in the plane. Otherwise those
// beside it are -infinity, which no maximum takes. Loads depend on nothing, so all of some rows are in flight together.
template <bool INSIDE> KF_INLINE void reduce(const Plane& plane, int top, int left, Best (&best)[ROWS]) {
  const T* p = plane.x + (int64_t(top) * plane.row_stride + left);
  for (int first = 0; first < SPAN; first += AT_ONCE) {
    A v[AT_ONCE][KW];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      const int h = top + first + j;
      const T* row = p + int64_t(first + j) * plane.row_stride;
#pragma unroll WIDTH_AT_ONCE
      for (int k = 0; k < KW; ++k) {
        const int w = left + k * DW;
        const bool inside = INSIDE || (h >= 0 && h < plane.height && w >= 0 && w < plane.width);
        v[j][k] = inside ? kf_of(row[k * DW]) : -kf_infinity<A>();
      }
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      Best line = {v[j][0], 0};
#pragma unroll WIDTH_AT_ONCE
      for (int k = 1; k < KW; ++k) take(line, v[j][k], k * DW);
      line.index += (top + first + j) * plane.width + left;
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (meets(first + j, r)) take(best[r], line.value, line.index);
    }
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> columns = {width_out, width_out_magic}, strips = {blocks, blocks_magic}, samples = {channels, channels_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  const int column = int(columns.split(i)), first = int(strips.split(i)) * ROWS, top = first * SH - PH, left = column * SW - PW;
  const int64_t at = (int64_t(i) * height_out + first) * width_out + column;
  const INDEX channel = samples.split(i);
  const Plane plane = {x + (int64_t(i) * sample_stride + int64_t(channel) * channel_stride), int(height), int(width), row_stride};
  const int from = range_of(column, SW, PW, KW, DW, int(width)).from;
  Best best[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) best[r] = {-kf_infinity<A>(), range_of(first + r, SH, PH, KH, DH, int(height)).from * int(width) + from};
  if (top >= 0 && top + SPAN <= int(height) && left >= 0 && left + (KW - 1) * DW < int(width)) reduce<true>(plane, top, left, best);
  else reduce<false>(plane, top, left, best);
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    if (first + r < int(height_out)) {
      out[at + r * int64_t(width_out)] = kf_to<T>(best[r].value);
      if constexpr (INDICES) index[at + r * int64_t(width_out)] = best[r].index;
    }
}
