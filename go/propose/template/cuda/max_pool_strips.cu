// Max pool, with indices or without (INDICES), where channels are contiguous, in strips: values and indices exactly as eager gives them.
//
// Idea: a thread has VEC channels of a column of ROWS outputs. Each input row is folded across the window once, all its loads in flight; rows that the next
// window below has too stay in registers, so that a window of 3 x 3 with stride 2 reads 6 vectors and not 9. Indices are stored 16 bytes at a time.
// Bound: bytes of input, values and 64-bit indices, if any.
// Works for: any sizes with channels of stride 1, VEC dividing them; kernel, stride and padding are constants, dilation is 1.
// Parameters the tree may change: THREADS, VEC (channels of a thread), ROWS (outputs below each other).
// Numerics: comparisons only. NaN wins over everything and the last one stays; else the first of equal ones. Where nothing is above
// -infinity the index is 0, as eager's kernel for this layout has it.

// @include rows.cuh

// @include lines.cuh

struct Column { const T* p; int left, width, height; INDEX row, step; bool aligned; };
// Some rows from y on, each folded across the window.
template <int COUNT> KF_INLINE void fold(Line<VEC> (&lines)[COUNT], const Column& c, int y) {
  kf_vec<A, VEC> v[COUNT][KW];
#pragma unroll
  for (int j = 0; j < COUNT; ++j)
#pragma unroll
    for (int w = 0; w < KW; ++w) {
      const int h = y + j, z = c.left + w;
      if (h >= 0 && h < c.height && z >= 0 && z < c.width) v[j][w] = get<VEC>(c.p + int64_t(h) * c.row + int64_t(z) * c.step, c.aligned);
      else v[j][w] = all_of<VEC>(-kf_infinity<A>());
    }
#pragma unroll
  for (int j = 0; j < COUNT; ++j) {
    lines[j].clear();
#pragma unroll
    for (int w = 0; w < KW; ++w)
#pragma unroll
      for (int e = 0; e < VEC; ++e) lines[j].take(e, v[j][w][e], (y + j) * c.width + c.left + w);
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> vectors = {blocks, blocks_magic}, columns = {width_out, width_out_magic}, strips = {strips_n, strips_n_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  const INDEX channel = vectors.split(i) * VEC, column = columns.split(i), first = strips.split(i) * ROWS;
  const Column c = {x + int64_t(i) * sample_stride + channel, int(column) * SW - PW, int(width), int(height), row_stride, column_stride, aligned_tensor<VEC>(x)};
  const bool aligned_out = aligned_tensor<VEC>(out) && aligned_tensor<VEC>(index);
  int64_t at = ((int64_t(i) * height_out + first) * width_out + column) * blocks * VEC + channel;
  int y = int(first) * SH - PH;
  Line<VEC> kept[KEPT > 0 ? KEPT : 1];
  if constexpr (KEPT > 0) fold(kept, c, y);
#pragma unroll 1
  for (INDEX r = first; r < height_out && r < first + ROWS; ++r, y += SH, at += int64_t(width_out) * blocks * VEC) {
    Line<VEC> lines[NEW], all;
    fold(lines, c, y + KEPT);
    all.clear();
    roll(all, kept, lines);
    put_line(out + at, index + at, all, aligned_out);
  }
}
