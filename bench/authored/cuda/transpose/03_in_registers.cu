// Idea: no shared memory and no barrier. A thread reads a block of 8 by 8 elements as 8 vectors and turns it in registers (one byte permutation a word) into 8 vectors that it
// writes. A warp reads 128 bytes of 4 rows at a time and writes 64 bytes of 8 rows: whole sectors both times.

// Lanes of a warp: ACROSS along a source row (16 bytes each), the others down the source's rows, 8 of them each.
KF_KERNEL(THREADS) void kf_main(const uint4* src, uint4* out, int rows, int columns) {
  constexpr int DOWN = 32 / ACROSS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int i = (blockIdx.x * ACROSS + lane % ACROSS) * 8, j = ((blockIdx.y * (THREADS / 32) + warp) * DOWN + lane / ACROSS) * 8;
  if (j >= columns) return;
  union {
    uint4 all;
    uint32_t pairs[4];
  } in[8];
  const uint4* from = src + (int64_t(j) * rows + i) / 8;
#pragma unroll
  for (int r = 0; r < 8; ++r) in[r].all = from[int64_t(r) * rows / 8];
  uint4* to = out + (int64_t(i) * columns + j) / 8;
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    uint32_t word[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const uint32_t a = in[2 * q].pairs[c / 2], b = in[2 * q + 1].pairs[c / 2];
      word[q] = c % 2 == 0 ? (a & 0xffffu) | b << 16 : a >> 16 | (b & 0xffff0000u);
    }
    to[int64_t(c) * columns / 8] = uint4{word[0], word[1], word[2], word[3]};
  }
}
