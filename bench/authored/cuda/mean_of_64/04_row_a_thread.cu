// Idea: no shuffles: a thread reads its row of 256 bytes as 16 vectors that are all on the way at once. Bold: a warp's load touches 32 lines, and only the L1 makes whole ones of
// them.
// Improves on: 01_half_a_warp

struct alignas(16) Four {
  float x, y, z, w;
};
KF_INLINE float added(Four v) { return (v.x + v.y) + (v.z + v.w); }

KF_KERNEL(THREADS) void kf_main(const Four* self, float* out, int rows) {
  const int row = blockIdx.x * THREADS + threadIdx.x;
  if (row >= rows) return;
  Four v[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = self[int64_t(row) * 16 + i];
  float sum[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) sum[i] = added(v[i]);
#pragma unroll
  for (int half = 8; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  out[row] = sum[0] * (1.0f / 64);
}
