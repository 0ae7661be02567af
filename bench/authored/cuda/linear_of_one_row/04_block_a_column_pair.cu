// Idea: many small pieces: a block of four warps has two columns, a quarter of each for every warp, 8 loads a lane. The tail is short, since a block is done soon; a fold through
// shared memory is what it costs.
// Improves on: 01_warp_a_column

constexpr int WORDS = LENGTH / 8, EACH = WORDS / THREADS;
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
struct Two {
  float first, second;
};
struct Add {
  KF_INLINE Two operator()(Two a, Two b) const { return {a.first + b.first, a.second + b.second}; }
};

KF_KERNEL(THREADS) void kf_main(const uint4* self, const uint4* weight, kf_bf16* out, int columns) {
  const int column = blockIdx.x * 2;
  const uint4* w = weight + int64_t(column) * WORDS + threadIdx.x;
  const bool both = column + 1 < columns;
  uint4 first[EACH], second[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    first[i] = __ldcs(w + i * THREADS);
    if (both) second[i] = __ldcs(w + WORDS + i * THREADS);
  }
  Two sum = {0, 0};
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const uint4 x = self[i * THREADS + threadIdx.x];
    sum.first = dot(x, first[i], sum.first);
    if (both) sum.second = dot(x, second[i], sum.second);
  }
  sum = kf_block_fold<THREADS>(sum, Add());
  if (threadIdx.x == 0) {
    out[column] = kf_to<kf_bf16>(sum.first);
    if (both) out[column + 1] = kf_to<kf_bf16>(sum.second);
  }
}
