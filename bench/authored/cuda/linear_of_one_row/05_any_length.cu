// Idea: a model's layers have rows of many lengths, and one kernel serves them all if the length is an argument: a warp asks for up to 8 words of 16 bytes a lane at once,
// those of them that its column has, and adds them up; a long column takes several rounds.
// Improves on: 01_warp_a_column

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

KF_KERNEL(THREADS) void kf_main(const uint4* self, const uint4* weight, kf_bf16* out, int columns, int words) {
  const int column = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (column >= columns) return;  // a whole warp
  const uint4* row = weight + int64_t(column) * words;
  float sum[2] = {0, 0};
  for (int first = lane; first < words; first += 32 * EACH) {
    uint4 w[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      if (first + i * 32 < words) w[i] = __ldcs(row + first + i * 32);
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      if (first + i * 32 < words) sum[i % 2] = dot(self[first + i * 32], w[i], sum[i % 2]);
  }
  const float all = kf_warp_fold(sum[0] + sum[1], kf_sum_of());
  if (lane == 0) out[column] = kf_to<kf_bf16>(all);
}
