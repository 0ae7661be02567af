// Average pooling, adaptive too, where channels are contiguous.
//
// Idea: a thread has VEC channels of one output; TEAM threads of a block share the positions of a window. Bound: bytes of input and output.
// Works for: any sizes with channels of stride 1, VEC dividing them. ADAPTIVE: windows from the sizes; else kernel, stride and padding are
// constants.
// Parameters the tree may change: THREADS, TEAM (threads of a window), VEC (channels of a thread).
// Numerics: float (double for double), divided at the end.

// @include rows.cuh

// @include average.cuh

constexpr int SIDE = THREADS / TEAM;  // outputs of a block, in vectors

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> vectors = {blocks, blocks_magic}, across = {width_out, width_out_magic}, down = {height_out, height_out_magic};
  const INDEX item = INDEX(blockIdx.x) * SIDE + INDEX(threadIdx.x % SIDE);
  const bool valid = item < count;
  INDEX i = valid ? item : 0;
  const int t = threadIdx.x / SIDE, channel = int(vectors.split(i)) * VEC, column = int(across.split(i)), row = int(down.split(i));
  const T* p = x + int64_t(i) * sample_stride + channel;
  const bool aligned = aligned_tensor<VEC>(x);
  const Span rows = span_of(row, down, SH, PH, KH, int(height)), columns = span_of(column, across, SW, PW, KW, int(width));
  const int wide = columns.to - columns.from, elements = (rows.to - rows.from) * wide;
  kf_vec<A, VEC> sum = all_of<VEC>(A(0));
  p += int64_t(rows.from) * row_stride + int64_t(columns.from) * column_stride;
  Steps at(t, TEAM, wide);
#pragma unroll 4
  for (int k = t; k < elements; k += TEAM, at.next()) {
    const kf_vec<A, VEC> v = get<VEC>(p + int64_t(at.h) * row_stride + int64_t(at.w) * column_stride, aligned);
#pragma unroll
    for (int e = 0; e < VEC; ++e) sum[e] += v[e];
  }
  if constexpr (TEAM > 1) {
    __shared__ kf_vec<A, VEC> kept[THREADS];
    kept[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int half = TEAM / 2; half > 0; half /= 2) {
      if (t < half) {
        const kf_vec<A, VEC> other = kept[threadIdx.x + half * SIDE];
#pragma unroll
        for (int e = 0; e < VEC; ++e) sum[e] += other[e];
        kept[threadIdx.x] = sum;
      }
      __syncthreads();
    }
  }
  if (!valid || t > 0) return;
#pragma unroll
  for (int e = 0; e < VEC; ++e) sum[e] = average(sum[e], rows, columns);
  put<VEC>(out + int64_t(item) * VEC, sum, aligned_tensor<VEC>(out));
}
