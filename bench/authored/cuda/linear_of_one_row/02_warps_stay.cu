// Idea: warps stay, keep the input in registers for all of their columns, and ask for the next column's first half while they add up this one's second: the weight's bytes
// never stop coming.
// Improves on: 01_warp_a_column

constexpr int WORDS = LENGTH / 8, EACH = WORDS / 32, HALF = EACH / 2;
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

KF_KERNEL(THREADS, 1) void kf_main(const uint4* self, const uint4* weight, kf_bf16* out, int columns) {
  const int lane = threadIdx.x % 32, step = gridDim.x * (THREADS / 32);
  uint4 x[EACH], a[HALF], b[HALF];
#pragma unroll
  for (int i = 0; i < EACH; ++i) x[i] = self[i * 32 + lane];
  int column = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  if (column >= columns) return;  // a whole warp
  const uint4* w = weight + int64_t(column) * WORDS + lane;
#pragma unroll
  for (int i = 0; i < HALF; ++i) a[i] = __ldcs(w + i * 32);
  for (;;) {
#pragma unroll
    for (int i = 0; i < HALF; ++i) b[i] = __ldcs(w + (HALF + i) * 32);
    float sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < HALF; ++i) sum[i % 2] = dot(x[i], a[i], sum[i % 2]);
    const int next = column + step;
    w += int64_t(step) * WORDS;
    if (next < columns) {
#pragma unroll
      for (int i = 0; i < HALF; ++i) a[i] = __ldcs(w + i * 32);
    }
#pragma unroll
    for (int i = 0; i < HALF; ++i) sum[i % 2] = dot(x[HALF + i], b[i], sum[i % 2]);
    const float all = kf_warp_fold(sum[0] + sum[1], kf_sum_of());
    if (lane == 0) out[column] = kf_to<kf_bf16>(all);
    if (next >= columns) return;
    column = next;
  }
}
