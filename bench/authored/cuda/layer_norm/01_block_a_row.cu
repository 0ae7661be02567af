// Idea: one read and one write. A block keeps its row in registers as it came; the mean is folded first, then the squares about it, so that nothing cancels. A sum
// that overflows is taken again of parts.

constexpr int WORDS = LENGTH / 8, EACH = WORDS / THREADS;
union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// The sum over this thread's elements of f of each, a word's four pairs one after the other.
template <class F>
KF_INLINE float total(const Words (&kept)[EACH], F f) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int p = 0; p < 4; ++p) sum += f(low(kept[i].pairs[p])) + f(high(kept[i].pairs[p]));
  return sum;
}
// A word of the result.
KF_INLINE uint4 normed(Words v, float mean, float rstd, uint4 weight, uint4 bias) {
  Words w, b;
  w.all = weight;
  b.all = bias;
#pragma unroll
  for (int p = 0; p < 4; ++p)
    v.pairs[p] = kf_pair((low(v.pairs[p]) - mean) * rstd * low(w.pairs[p]) + low(b.pairs[p]),
                         (high(v.pairs[p]) - mean) * rstd * high(w.pairs[p]) + high(b.pairs[p]), (kf_bf16*)nullptr);
  return v.all;
}

KF_KERNEL(THREADS) void kf_main(const uint4* input, const uint4* weight, const uint4* bias, uint4* out, float* mean_out, float* rstd_out) {
  const uint4* x = input + int64_t(blockIdx.x) * WORDS + threadIdx.x;
  Words kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = x[i * THREADS];
  float mean = kf_block_fold<THREADS>(total(kept, [](float v) { return v; }), kf_sum_of()) * (1.0f / LENGTH);
  if (!(mean - mean == 0)) mean = kf_block_fold<THREADS>(total(kept, [](float v) { return v * (1.0f / LENGTH); }), kf_sum_of());
  const float squares = kf_block_fold<THREADS>(total(kept, [=](float v) { return (v - mean) * (v - mean); }), kf_sum_of());
  const float rstd = rsqrtf(squares * (1.0f / LENGTH) + EPS);
  if (threadIdx.x == 0) {
    mean_out[blockIdx.x] = mean;
    rstd_out[blockIdx.x] = rstd;
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int at = i * THREADS + threadIdx.x;
    out[int64_t(blockIdx.x) * WORDS + at] = normed(kept[i], mean, rstd, weight[at], bias[at]);
  }
}
