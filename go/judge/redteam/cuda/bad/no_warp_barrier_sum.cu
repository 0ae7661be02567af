// kind: missing_barrier
// call: sum_fp32_rows
// dies: crash, wrong_value
// gate: sanitizer
// why: the last warp folds through shared memory without a barrier: right as long as its lanes happen to move together
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  __shared__ volatile float part[256];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < 128) part[threadIdx.x] = part[threadIdx.x] + part[threadIdx.x + 128];
  __syncthreads();
  if (threadIdx.x < 64) part[threadIdx.x] = part[threadIdx.x] + part[threadIdx.x + 64];
  __syncthreads();
  if (threadIdx.x < 32)
    for (int lanes = 32; lanes > 0; lanes /= 2) part[threadIdx.x] = part[threadIdx.x] + part[threadIdx.x + lanes];
  if (threadIdx.x == 0) out0[blockIdx.x] = part[0];
}
