// Idea: no barriers: a warp keeps a row, 256 bytes a lane, and folds by shuffles alone; weight and bias come from the L1, where all rows of the block find them.

constexpr int WORDS = LENGTH / 8, EACH = WORDS / 32;
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
// Mean of some elements and squares about it. Both sides of a join always have equally many, so no share has to be worked out (Chan, Golub and LeVeque 1979).
struct Moments {
  float mean, squares;
};
KF_INLINE Moments joined(Moments a, Moments b, float count) {  // count: of each side
  const float apart = b.mean - a.mean;
  return {0.5f * a.mean + 0.5f * b.mean, a.squares + b.squares + apart * apart * (0.5f * count)};
}
KF_INLINE Moments of_warp(Moments m, float count) {
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2, count *= 2) m = joined(m, kf_shuffle_xor(m, lanes), count);
  return m;
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

KF_KERNEL(THREADS)
void kf_main(const uint4* input, const uint4* weight, const uint4* bias, uint4* out, float* mean_out, float* rstd_out, int rows) {
  const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // a whole warp
  const uint4* x = input + int64_t(row) * WORDS + lane;
  Words kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = x[i * 32];
  const float mine = total(kept, [](float v) { return v * (1.0f / (EACH * 8)); });
  const Moments all = of_warp(Moments{mine, total(kept, [=](float v) { return (v - mine) * (v - mine); })}, EACH * 8);
  const float mean = all.mean, rstd = rsqrtf(all.squares * (1.0f / LENGTH) + EPS);
  if (lane == 0) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    out[int64_t(row) * WORDS + i * 32 + lane] = normed(kept[i], mean, rstd, weight[i * 32 + lane], bias[i * 32 + lane]);
}
