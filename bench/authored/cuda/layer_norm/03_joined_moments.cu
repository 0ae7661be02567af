// Idea: what 02 wanted, without its cancellation: a thread takes mean and squares of its own 16 elements in registers, and one fold joins moments in place of sums.
// Both sides of every join are equally many, which leaves a difference, a square and a few sums.
// Improves on: 01_block_a_row
// Answers: 02_sums_of_squares

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
// Of the row, for all of the block. Ends with no barrier: `parts` may be written again after the next one.
KF_INLINE Moments of_row(Moments m, Moments* parts) {
  constexpr int Warps = THREADS / 32;
  m = of_warp(m, LENGTH / THREADS);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = m;
  __syncthreads();
  m = parts[threadIdx.x % Warps];
  float count = LENGTH / Warps;
#pragma unroll
  for (int lanes = 1; lanes < Warps; lanes *= 2, count *= 2) m = joined(m, kf_shuffle_xor(m, lanes), count);
  return m;
}
KF_INLINE Moments of_thread(const Words (&kept)[EACH]) {
  constexpr float share = 1.0f / (EACH * 8);
  const float mean = total(kept, [](float v) { return v * share; });
  return {mean, total(kept, [=](float v) { return (v - mean) * (v - mean); })};
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
  __shared__ Moments parts[THREADS / 32];
  const uint4* x = input + int64_t(blockIdx.x) * WORDS + threadIdx.x;
  Words kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i].all = x[i * THREADS];
  const Moments row = of_row(of_thread(kept), parts);
  const float mean = row.mean, rstd = rsqrtf(row.squares * (1.0f / LENGTH) + EPS);
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
