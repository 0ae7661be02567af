// Max pool with indices of planes whose rows are contiguous: values and indices exactly as eager gives them.
//
// Idea: a thread has ROWS outputs below each other and reduces each input row that their windows share once; neighbouring threads take
// neighbouring columns, so that their windows meet in the L1 and stores are whole lines. Bound: bytes of input, values and 64-bit indices.
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

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> columns = {width_out, width_out_magic}, strips = {blocks, blocks_magic}, samples = {channels, channels_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  const int column = int(columns.split(i)), top = int(strips.split(i)) * ROWS;
  const INDEX plane = i;
  const int64_t channel = samples.split(i);
  const T* p = x + int64_t(i) * sample_stride + channel * channel_stride;
  const Range across = range_of(column, SW, PW, KW, DW, int(width));
  const int left = column * SW - PW;

  Best best[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    best[r] = {-kf_infinity<A>(), range_of(top + r, SH, PH, KH, DH, int(height)).from * int(width) + across.from};
  // Elements beside the plane are -infinity, which no maximum takes: loads depend on nothing, so all of some rows are in flight together.
  for (int first = 0; first < SPAN; first += AT_ONCE) {
    A v[AT_ONCE][KW];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      const int h = top * SH - PH + first + j;
#pragma unroll WIDTH_AT_ONCE
      for (int k = 0; k < KW; ++k) {
        const int w = left + k * DW;
        v[j][k] = h >= 0 && h < int(height) && w >= 0 && w < int(width) ? kf_of(p[int64_t(h) * row_stride + w]) : -kf_infinity<A>();
      }
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      Best line = {-kf_infinity<A>(), 0};
      const int at = (top * SH - PH + first + j) * int(width) + left;
#pragma unroll WIDTH_AT_ONCE
      for (int k = 0; k < KW; ++k) take(line, v[j][k], at + k * DW);
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (meets(first + j, r)) take(best[r], line.value, line.index);
    }
  }
  const int64_t at = (int64_t(plane) * height_out + top) * width_out + column;
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    if (top + r < int(height_out)) {
      out[at + r * int64_t(width_out)] = kf_to<T>(best[r].value);
      index[at + r * int64_t(width_out)] = best[r].index;
    }
}
