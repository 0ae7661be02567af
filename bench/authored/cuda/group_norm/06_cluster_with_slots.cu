// Idea: as 03 without its spills: the binary of 03 has 112 bytes of stack a thread, since the compiler keeps the widened elements from one walk to the next. Here each thread's own
// words lie in slots of shared memory, 64 KiB a block, and every walk takes a few at a time.
// Improves on: 03_cluster_of_8

constexpr int GROUP = CHANNELS * AREA, WORDS = GROUP / CLUSTER / 8, EACH = WORDS / THREADS;  // words of 16 bytes
static_assert(AREA % (THREADS * 8) == 0, "the block's words of one step lie in one channel");
union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// The sum over this thread's elements of f of each, a word's four pairs one after the other.
extern __shared__ uint4 slots[];
template <class F>
KF_INLINE float total(F f) {
  float sum = 0;
#pragma unroll 2
  for (int i = 0; i < EACH; ++i) {
    Words w;
    w.all = slots[i * THREADS + threadIdx.x];
#pragma unroll
    for (int p = 0; p < 4; ++p) sum += f(low(w.pairs[p])) + f(high(w.pairs[p]));
  }
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
KF_INLINE Moments of_thread() {
  constexpr float share = 1.0f / (EACH * 8);
  const float mean = total([](float v) { return v * share; });
  return {mean, total([=](float v) { return (v - mean) * (v - mean); })};
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

KF_KERNEL(THREADS, 2)
void kf_main(const uint4* input, const kf_bf16* weight, const kf_bf16* bias, uint4* out, kf_bf16* mean_out, kf_bf16* rstd_out, int groups) {
  __shared__ Moments inbox[CLUSTER], shared[THREADS / 32];
  __cluster_barrier_arrive_relaxed();  // the others' shared memory may be written once they have begun
  const int group = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
  const int64_t first = int64_t(blockIdx.x) * WORDS + threadIdx.x;
  uint4 loaded[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) loaded[i] = input[first + i * THREADS];
#pragma unroll
  for (int i = 0; i < EACH; ++i) slots[i * THREADS + threadIdx.x] = loaded[i];
  const Moments mine = of_block(of_thread(), shared);
  __cluster_barrier_wait();
  if (threadIdx.x < CLUSTER) *(Moments*)__cluster_map_shared_rank(&inbox[rank], threadIdx.x) = mine;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  Moments all = inbox[threadIdx.x % CLUSTER];
  float count = GROUP / CLUSTER;
#pragma unroll
  for (int lanes = 1; lanes < CLUSTER; lanes *= 2, count *= 2) all = joined(all, kf_shuffle_xor(all, lanes), count);
  const float rstd = rsqrtf(all.squares * (1.0f / GROUP) + EPS);
  if (rank == 0 && threadIdx.x == 0) {
    mean_out[group] = kf_to<kf_bf16>(all.mean);
    rstd_out[group] = kf_to<kf_bf16>(rstd);
  }
#pragma unroll 2
  for (int i = 0; i < EACH; ++i) {
    Words w;
    w.all = slots[i * THREADS + threadIdx.x];
    const int channel = group % groups * CHANNELS + (rank * WORDS + i * THREADS) * 8 / AREA;
    out[first + i * THREADS] = scaled(w, all.mean, rstd * kf_of(weight[channel]), kf_of(bias[channel]));
  }
}
