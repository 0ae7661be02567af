// Idea: what 05 wanted, for all numbers: each warp takes its exponentials below its own maximum, which needs shuffles only, and the block folds once, maximum
// and sum together. A warp's share is then scaled by what its maximum lies below the row's.
// Improves on: 01_registers
// Answers: 05_no_maximum

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
struct Part {
  float most, sum;
};
KF_INLINE float below(float most, float base) { return kf_exp2((most - base) * 1.44269504f); }
struct Join {
  KF_INLINE Part operator()(Part a, Part b) const {
    const float most = fmaxf(a.most, b.most), base = base_of(most);
    return {most, a.sum * below(a.most, base) + b.sum * below(b.most, base)};
  }
};

KF_KERNEL(THREADS) void kf_main(const uint4* self, uint4* out) {
  __shared__ Part parts[THREADS / 32];
  const uint4* x = self + int64_t(blockIdx.x) * WORDS + threadIdx.x;
  Words kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = x[i * THREADS];
  float most = -kf_infinity<float>();
#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int p = 0; p < 4; ++p) most = fmaxf(most, fmaxf(low(kept[i].pairs[p]), high(kept[i].pairs[p])));
  most = kf_warp_fold(most, Most());
  const float base = base_of(most);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int p = 0; p < 4; ++p) sum += power(low(kept[i].pairs[p]) - base) + power(high(kept[i].pairs[p]) - base);
  sum = kf_warp_fold(sum, kf_sum_of());
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = Part{most, sum};
  __syncthreads();
  const Part row = kf_warp_fold<THREADS / 32>(parts[threadIdx.x % (THREADS / 32)], Join());
  const float share = below(most, base_of(row.most)) / row.sum;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    Words w = kept[i];
#pragma unroll
    for (int p = 0; p < 4; ++p)
      w.pairs[p] = kf_pair(power(low(w.pairs[p]) - base) * share, power(high(w.pairs[p]) - base) * share, (kf_bf16*)nullptr);
    out[int64_t(blockIdx.x) * WORDS + i * THREADS + threadIdx.x] = w.all;
  }
}
