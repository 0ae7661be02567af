// Idea: outputs that stay in the L2 push the input out before the second kernel has read it: they are written evict first, and the last read of the input says the same.
// Improves on: 01_two_kernels

constexpr int GROUP = CHANNELS * AREA, PARTS = 32, WORDS = GROUP / PARTS / 8, EACH = WORDS / THREADS;  // words of 16 bytes
static_assert(AREA % (GROUP / PARTS) == 0, "a part lies in one channel");
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
KF_INLINE Moments of_thread(const Words (&kept)[EACH]) {
  constexpr float share = 1.0f / (EACH * 8);
  const float mean = total(kept, [](float v) { return v * share; });
  return {mean, total(kept, [=](float v) { return (v - mean) * (v - mean); })};
}
// Of all of the block's elements, for all of its threads.
KF_INLINE Moments of_block(Moments m, Moments* parts) {
  constexpr int Warps = THREADS / 32;
  m = of_warp(m, EACH * 8);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = m;
  __syncthreads();
  m = parts[threadIdx.x % Warps];
  float count = EACH * 8 * 32;
#pragma unroll
  for (int lanes = 1; lanes < Warps; lanes *= 2, count *= 2) m = joined(m, kf_shuffle_xor(m, lanes), count);
  return m;
}
KF_INLINE uint4 scaled(Words v, float mean, float scale, float shift) {
#pragma unroll
  for (int p = 0; p < 4; ++p)
    v.pairs[p] = kf_pair((low(v.pairs[p]) - mean) * scale + shift, (high(v.pairs[p]) - mean) * scale + shift, (kf_bf16*)nullptr);
  return v.all;
}

KF_KERNEL(THREADS) void kf_moments(const uint4* input, Moments* parts) {
  Words kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = input[int64_t(blockIdx.x) * WORDS + i * THREADS + threadIdx.x];
  __shared__ Moments shared[THREADS / 32];
  const Moments m = of_block(of_thread(kept), shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = m;
}

KF_KERNEL(THREADS)
void kf_scale(const uint4* input, const kf_bf16* weight, const kf_bf16* bias, uint4* out, kf_bf16* mean_out, kf_bf16* rstd_out,
              const Moments* parts, int groups) {
  const int group = blockIdx.x / PARTS, part = blockIdx.x % PARTS, channel = group % groups * CHANNELS + part * (GROUP / PARTS) / AREA;
  Words kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = __ldcs(input + int64_t(blockIdx.x) * WORDS + i * THREADS + threadIdx.x);
  const Moments all = of_warp(parts[group * PARTS + threadIdx.x % 32], GROUP / PARTS);
  const float rstd = rsqrtf(all.squares * (1.0f / GROUP) + EPS), scale = rstd * kf_of(weight[channel]), shift = kf_of(bias[channel]);
  if (part == 0 && threadIdx.x == 0) {
    mean_out[group] = kf_to<kf_bf16>(all.mean);
    rstd_out[group] = kf_to<kf_bf16>(rstd);
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    __stcs(out + int64_t(blockIdx.x) * WORDS + i * THREADS + threadIdx.x, scaled(kept[i], all.mean, scale, shift));
}
