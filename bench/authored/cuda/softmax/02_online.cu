// Idea: no registers for the row, so that more blocks fit a multiprocessor: maximum and sum are kept together while the row goes by (one fold of both), and
// the second walk finds the row in the L2.

constexpr int WORDS = LENGTH / 8, EACH = WORDS / THREADS;
union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// 2^64 e^x, so that what is small is not flushed to zero before it is divided by the sum.
KF_INLINE float power(float x) { return kf_exp2(x * 1.44269504f + 64); }
KF_INLINE float base_of(float most) { return most == -kf_infinity<float>() ? 0 : most; }
struct Part {
  float most, sum;
};
struct Join {
  KF_INLINE Part operator()(Part a, Part b) const {
    const float most = fmaxf(a.most, b.most), base = base_of(most);
    return {most, a.sum * kf_exp2((a.most - base) * 1.44269504f) + b.sum * kf_exp2((b.most - base) * 1.44269504f)};
  }
};

KF_KERNEL(THREADS) void kf_main(const uint4* self, uint4* out) {
  const uint4* x = self + int64_t(blockIdx.x) * WORDS + threadIdx.x;
  Part part = {-kf_infinity<float>(), 0};
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    Words w;
    w.all = x[i * THREADS];
    float most = -kf_infinity<float>(), sum = 0;
#pragma unroll
    for (int p = 0; p < 4; ++p) most = fmaxf(most, fmaxf(low(w.pairs[p]), high(w.pairs[p])));
    const float base = base_of(most);
#pragma unroll
    for (int p = 0; p < 4; ++p) sum += power(low(w.pairs[p]) - base) + power(high(w.pairs[p]) - base);
    part = Join()(part, Part{most, sum});
  }
  part = kf_block_fold<THREADS>(part, Join());
  const float base = base_of(part.most), share = 1 / part.sum;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    Words w;
    w.all = x[i * THREADS];
#pragma unroll
    for (int p = 0; p < 4; ++p)
      w.pairs[p] = kf_pair(power(low(w.pairs[p]) - base) * share, power(high(w.pairs[p]) - base) * share, (kf_bf16*)nullptr);
    out[int64_t(blockIdx.x) * WORDS + i * THREADS + threadIdx.x] = w.all;
  }
}
