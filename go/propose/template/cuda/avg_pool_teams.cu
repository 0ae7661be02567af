// Average pooling, adaptive too, of planes whose rows are contiguous, with windows of any size.
//
// Idea: TEAM neighbouring lanes share the elements of a window; alone, a thread adds up its window in eager's order. Bound: bytes of input and
// output.
// Works for: any sizes with rows of stride 1. ADAPTIVE: windows from the sizes; else kernel, stride and padding are constants.
// Parameters the tree may change: THREADS, TEAM (threads of a window).
// Numerics: float (double for double), divided at the end.

// @include pool.cuh

// @include average.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> across = {width_out, width_out_magic}, down = {height_out, height_out_magic}, samples = {channels, channels_magic};
  const INDEX item = INDEX(blockIdx.x) * (THREADS / TEAM) + INDEX(threadIdx.x / TEAM);
  const bool valid = item < count;
  INDEX i = valid ? item : 0;
  const int t = threadIdx.x % TEAM, column = int(across.split(i)), row = int(down.split(i));
  const int64_t channel = samples.split(i);
  const T* p = x + int64_t(i) * sample_stride + channel * channel_stride;
  const Span rows = span_of(row, down, SH, PH, KH, int(height)), columns = span_of(column, across, SW, PW, KW, int(width));
  const int wide = columns.to - columns.from, elements = (rows.to - rows.from) * wide;
  A sum = 0;
  if (TEAM == 1) {
    for (int h = rows.from; h < rows.to; ++h)
#pragma unroll 4
      for (int w = columns.from; w < columns.to; ++w) sum += kf_of(p[int64_t(h) * row_stride + w]);
  } else {
    p += int64_t(rows.from) * row_stride + columns.from;
    Steps at(t, TEAM, wide);
#pragma unroll 4
    for (int k = t; k < elements; k += TEAM, at.next()) sum += kf_of(p[int64_t(at.h) * row_stride + at.w]);
    sum = kf_warp_fold<TEAM>(sum, kf_sum_of());
  }
  if (valid && t == 0) out[item] = kf_to<T>(average(sum, rows, columns));
}
