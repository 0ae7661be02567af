// Idea: with one row of input there is nothing to reuse but that row, so this is reading the weight once: a warp has one column of the result, 8 KiB of the weight, all 16 loads
// of a lane on the way; the input comes from the L1.

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
  const int column = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (column >= columns) return;  // a whole warp
  uint4 w[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) w[i] = weight[int64_t(column) * WORDS + i * 32 + lane];
  float sum[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < EACH; ++i) sum[i % 2] = dot(self[i * 32 + lane], w[i], sum[i % 2]);
  const float all = kf_warp_fold(sum[0] + sum[1], kf_sum_of());
  if (lane == 0) out[column] = kf_to<kf_bf16>(all);
}
