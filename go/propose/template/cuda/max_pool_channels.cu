// Max pool, with indices or without (INDICES), where channels are contiguous: values and indices exactly as eager gives them.
//
// Idea: a thread has VEC channels of one output position; positions that windows share are in the L1. Bound: bytes of input, values and 64-bit
// indices, where there are some.
// Works for: any sizes with channels of stride 1, VEC dividing them; kernel, stride, padding and dilation are constants.
// Parameters the tree may change: THREADS, VEC (channels of a thread).
// Numerics: comparisons only. NaN wins over everything and the last one stays; else the first of equal ones. Where nothing is above -infinity
// the index is 0, as eager's kernel for this layout has it.

// @include rows.cuh

template <bool Holds> struct Is { static constexpr bool value = Holds; };
constexpr int AT_ONCE = KH * KW <= 64 ? KH : 1, WIDTH_AT_ONCE = KW <= 64 ? KW : 1;

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> vectors = {blocks, blocks_magic}, columns = {width_out, width_out_magic}, rows = {height_out, height_out_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  const int64_t at = int64_t(i) * VEC;
  const int channel = int(vectors.split(i)) * VEC, left = int(columns.split(i)) * SW - PW, top = int(rows.split(i)) * SH - PH;
  const T* p = x + int64_t(i) * sample_stride + channel;
  const bool aligned = aligned_tensor<VEC>(x), aligned_out = aligned_tensor<VEC>(out) && aligned_tensor<VEC>(index);
  kf_vec<A, VEC> best = all_of<VEC>(-kf_infinity<A>());
  int where[VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) where[e] = 0;
  auto reduce = [&](auto whole) {
#pragma unroll AT_ONCE
    for (int h = 0; h < KH; ++h) {
      const int y = top + h * DH;
      if (!whole.value && (y < 0 || y >= int(height))) continue;
#pragma unroll WIDTH_AT_ONCE
      for (int w = 0; w < KW; ++w) {
        const int z = left + w * DW;
        if (!whole.value && (z < 0 || z >= int(width))) continue;
        const kf_vec<A, VEC> v = get<VEC>(p + int64_t(y) * row_stride + int64_t(z) * column_stride, whole.value || aligned);
#pragma unroll
        for (int e = 0; e < VEC; ++e)
          if (v[e] > best[e] || v[e] != v[e]) best[e] = v[e], where[e] = y * int(width) + z;
      }
    }
  };
  if (aligned && top >= 0 && top + (KH - 1) * DH < int(height) && left >= 0 && left + (KW - 1) * DW < int(width)) reduce(Is<true>());
  else reduce(Is<false>());
  put<VEC>(out + at, best, aligned_out);
  if constexpr (INDICES) {
    kf_vec<int64_t, VEC> wide;
#pragma unroll
    for (int e = 0; e < VEC; ++e) wide[e] = where[e];
    put<VEC>(index + at, wide, aligned_out);
  }
}
