// kind: uninitialised_shared
// call: sum_fp32_rows
// dies: wrong_value
// gate: values
// why: eight warps write their parts and the first warp adds up 32: the rest is zero on a device that nobody used
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  __shared__ float part[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  sum = kf_warp_fold(sum, kf_sum_of());
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = kf_warp_fold(part[threadIdx.x], kf_sum_of());
    if (threadIdx.x == 0) out0[blockIdx.x] = sum;
  }
}
