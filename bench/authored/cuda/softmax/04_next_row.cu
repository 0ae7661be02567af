// Idea: blocks stay, and ask for their next row before they fold the one they have: while a block waits at its barriers its next 16 KiB are on the way.
// Improves on: 01_registers

constexpr int WORDS = LENGTH / 8, EACH = WORDS / THREADS;
union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// 2^64 e^x, so that what is small is not flushed to zero before it is divided by the sum.
KF_INLINE float power(float x) { return kf_exp2(x * 1.44269504f + 64); }
struct Most {
  KF_INLINE float operator()(float a, float b) const { return fmaxf(a, b); }
};  // a NaN is found by the sum
KF_INLINE float base_of(float most) { return most == -kf_infinity<float>() ? 0 : most; }

KF_KERNEL(THREADS) void kf_main(const uint4* self, uint4* out, int rows) {
  Words kept[EACH], next[EACH];
  int row = blockIdx.x;
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = self[int64_t(row) * WORDS + i * THREADS + threadIdx.x];
  for (;;) {
    const int after = row + int(gridDim.x);
    if (after < rows) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) next[i].all = self[int64_t(after) * WORDS + i * THREADS + threadIdx.x];
    }
    float most = -kf_infinity<float>();
#pragma unroll
    for (int i = 0; i < EACH; ++i)
#pragma unroll
      for (int p = 0; p < 4; ++p) most = fmaxf(most, fmaxf(low(kept[i].pairs[p]), high(kept[i].pairs[p])));
    const float base = base_of(kf_block_fold<THREADS>(most, Most()));
    float sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i)
#pragma unroll
      for (int p = 0; p < 4; ++p) sum += power(low(kept[i].pairs[p]) - base) + power(high(kept[i].pairs[p]) - base);
    sum = kf_block_fold<THREADS>(sum, kf_sum_of());
    const float share = 1 / sum;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      Words w = kept[i];
#pragma unroll
      for (int p = 0; p < 4; ++p)
        w.pairs[p] = kf_pair(power(low(w.pairs[p]) - base) * share, power(high(w.pairs[p]) - base) * share, (kf_bf16*)nullptr);
      out[int64_t(row) * WORDS + i * THREADS + threadIdx.x] = w.all;
    }
    if (after >= rows) return;
    row = after;
#pragma unroll
    for (int i = 0; i < EACH; ++i) kept[i] = next[i];
  }
}
