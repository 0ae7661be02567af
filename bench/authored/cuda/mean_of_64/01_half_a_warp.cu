// Idea: a row of 64 floats is 16 bytes for each of 16 lanes: one load, four shuffles, and a warp reads 512 bytes in one go.

struct alignas(16) Four {
  float x, y, z, w;
};
KF_INLINE float added(Four v) { return (v.x + v.y) + (v.z + v.w); }

KF_KERNEL(THREADS) void kf_main(const Four* self, float* out, int rows) {
  const int row = (blockIdx.x * THREADS + threadIdx.x) / 16, lane = threadIdx.x % 16;
  const float sum = kf_warp_fold<16>(row < rows ? added(self[int64_t(row) * 16 + lane]) : 0, kf_sum_of());
  if (lane == 0 && row < rows) out[row] = sum * (1.0f / 64);
}
