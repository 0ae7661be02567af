// Average pooling of planes whose rows are contiguous, with small windows.
//
// Idea: a thread has ROWS outputs below each other, whose windows share rows: all their elements are in registers, their loads in flight together.
// Neighbouring threads take neighbouring columns. Bound: bytes of input and output.
// Works for: any sizes with rows of stride 1; kernel, stride and padding are constants.
// Parameters the tree may change: THREADS, ROWS.
// Numerics: float (double for double), added up in eager's order, divided at the end.

// @include pool.cuh

// @include average.cuh

constexpr int HIGH = (ROWS - 1) * SH + KH;  // input rows below ROWS outputs

struct Plane { const T* x; int height, width; INDEX row_stride; };
// INSIDE: all elements are in the plane. Otherwise those beside it are zero.
template <bool INSIDE> KF_INLINE void read(const Plane& plane, int top, int left, A (&v)[HIGH][KW]) {
  const T* p = plane.x + (int64_t(top) * plane.row_stride + left);
#pragma unroll
  for (int h = 0; h < HIGH; ++h)
#pragma unroll
    for (int w = 0; w < KW; ++w) {
      const bool inside = INSIDE || (top + h >= 0 && top + h < plane.height && left + w >= 0 && left + w < plane.width);
      v[h][w] = inside ? kf_of(p[int64_t(h) * plane.row_stride + w]) : A(0);
    }
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> across = {width_out, width_out_magic}, strips = {blocks, blocks_magic}, samples = {channels, channels_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  const int column = int(across.split(i)), first = int(strips.split(i)) * ROWS, top = first * SH - PH, left = column * SW - PW;
  const int64_t at = (int64_t(i) * height_out + first) * width_out + column;
  const INDEX channel = samples.split(i);
  const Plane plane = {x + (int64_t(i) * sample_stride + int64_t(channel) * channel_stride), int(height), int(width), row_stride};
  const Span columns = span_of(column, int(width_out), SW, PW, KW, int(width));
  A v[HIGH][KW];
  if (top >= 0 && top + HIGH <= int(height) && left >= 0 && left + KW <= int(width)) read<true>(plane, top, left, v);
  else read<false>(plane, top, left, v);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (first + r >= int(height_out)) break;
    A sum = 0;
#pragma unroll
    for (int h = 0; h < KH; ++h)
#pragma unroll
      for (int w = 0; w < KW; ++w) sum += v[r * SH + h][w];
    out[at + r * int64_t(width_out)] = kf_to<T>(average(sum, span_of(first + r, int(height_out), SH, PH, KH, int(height)), columns));
  }
}
