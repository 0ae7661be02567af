// Idea: a row of 256 is 16 bytes for each lane of a warp: a lane adds up its 8 elements, five shuffles say what lies before them, and everything is one read and one write.
// Sums are kept in float, where eager rounds each to 16 bits.

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
  const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
  if (at / 32 >= rows) return;  // a whole warp
  float sums[8];
  prefixes(self[at], sums);
  const float upto = kf_warp_scan(sums[7], kf_sum_of()), before = kf_shuffle_up(upto, 1);
  out[at] = after(sums, threadIdx.x % 32 == 0 ? 0 : before);
}
