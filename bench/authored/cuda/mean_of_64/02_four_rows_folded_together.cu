// Idea: 16 lanes take four rows at once. Their sums are folded together: the lanes of each half give the other half what they do not keep, so that four rows take five shuffles in
// place of sixteen, and four loads are on the way.
// Improves on: 01_half_a_warp

struct alignas(16) Four {
  float x, y, z, w;
};
KF_INLINE float added(Four v) { return (v.x + v.y) + (v.z + v.w); }
// Keeps one of two values by a bit of the lane, and adds the other lane's.
KF_INLINE float halved(float a, float b, int bit) {
  const bool upper = (threadIdx.x & bit) != 0;
  const float give = upper ? a : b, keep = upper ? b : a;
  return keep + kf_shuffle_xor(give, bit);
}

KF_KERNEL(THREADS) void kf_main(const Four* self, float* out, int rows) {
  const int first = (blockIdx.x * THREADS + threadIdx.x) / 16 * 4, lane = threadIdx.x % 16;
  float sum[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) sum[r] = first + r < rows ? added(self[int64_t(first + r) * 16 + lane]) : 0;
  float mine = halved(halved(sum[0], sum[2], 8), halved(sum[1], sum[3], 8), 4);  // row: twice bit 3 and once bit 2 of the lane
  mine += kf_shuffle_xor(mine, 2);
  mine += kf_shuffle_xor(mine, 1);
  const int row = first + (lane >> 3) * 2 + (lane >> 2 & 1);
  if (lane % 4 == 0 && row < rows) out[row] = mine * (1.0f / 64);
}
