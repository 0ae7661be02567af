// Idea: fewer shuffles: 8 lanes have a row and walk along it in four steps of 128 bytes, three shuffles each, and carry the sum on; a warp has four rows at once and all of
// its loads are on the way together.
// Improves on: 01_warp_a_row

union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// Running sums of a word's 8 elements.
KF_INLINE void prefixes(uint4 loaded, float (&sums)[8]) {
  Words w;
  w.all = loaded;
  float sum = 0;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    sums[2 * p] = sum += low(w.pairs[p]);
    sums[2 * p + 1] = sum += high(w.pairs[p]);
  }
}
// Those of a word, each with what lies before it.
KF_INLINE uint4 after(const float (&sums)[8], float before) {
  Words w;
#pragma unroll
  for (int p = 0; p < 4; ++p) w.pairs[p] = kf_pair(before + sums[2 * p], before + sums[2 * p + 1], (kf_bf16*)nullptr);
  return w.all;
}

KF_KERNEL(THREADS) void kf_main(const uint4* self, uint4* out, int rows) {
  const int row = (blockIdx.x * THREADS + threadIdx.x) / 8, lane = threadIdx.x % 8;
  const int64_t at = int64_t(row) * 32 + lane;
  uint4 loaded[4];
#pragma unroll
  for (int s = 0; s < 4; ++s)
    if (row < rows) loaded[s] = __ldcs(self + at + s * 8);
  float carry = 0;
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    float sums[8];
    prefixes(loaded[s], sums);
    float upto = sums[7];
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2) {
      const float below = kf_shuffle_up(upto, lanes);
      if (lane >= lanes) upto = below + upto;
    }
    const float before = kf_shuffle_up(upto, 1);
    if (row < rows) out[at + s * 8] = after(sums, carry + (lane == 0 ? 0 : before));
    carry += kf_shuffle(upto, threadIdx.x % 32 / 8 * 8 + 7);
  }
}
