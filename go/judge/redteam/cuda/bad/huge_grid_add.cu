// kind: huge_grid
// call: add_fp32_odd
// dies: timeout
// gate: deadline
// why: two thousand million blocks, each of which has next to nothing to do
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["2147483647", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (blockIdx.x < 4096 && i < n) out0[i] = self[i] + other[i];
  for (int k = 0; k < 64; ++k) __syncthreads();
}
