// Idea: the input's words are read once for four columns, and four sums run side by side: fewer loads from the L1 for each byte of the weight, and four results a warp.
// Improves on: 01_warp_a_column

constexpr int WORDS = LENGTH / 8, EACH = WORDS / 32;
union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// Adds the products of 8 elements.
KF_INLINE float dot(uint4 a, uint4 b, float sum) {
  Words x, w;
  x.all = a;
  w.all = b;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    sum = __fmaf_rn(low(x.pairs[p]), low(w.pairs[p]), sum);
    sum = __fmaf_rn(high(x.pairs[p]), high(w.pairs[p]), sum);
  }
  return sum;
}

KF_KERNEL(THREADS) void kf_main(const uint4* self, const uint4* weight, kf_bf16* out, int columns) {
  const int first = (blockIdx.x * (THREADS / 32) + threadIdx.x / 32) * 4, lane = threadIdx.x % 32;
  if (first >= columns) return;  // a whole warp
  float sum[4] = {0, 0, 0, 0};
#pragma unroll 4
  for (int i = 0; i < EACH; ++i) {
    const uint4 x = self[i * 32 + lane];
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (first + c < columns) sum[c] = dot(x, __ldcs(weight + int64_t(first + c) * WORDS + i * 32 + lane), sum[c]);
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    sum[c] = kf_warp_fold(sum[c], kf_sum_of());
    if (lane == 0 && first + c < columns) out[first + c] = kf_to<kf_bf16>(sum[c]);
  }
}
