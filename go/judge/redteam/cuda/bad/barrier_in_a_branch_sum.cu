// kind: divergent_barrier
// call: sum_fp32_rows
// dies: timeout, wrong_value, crash
// gate: deadline
// why: the first thread waits for a flag that others set behind a barrier which the first thread never reaches
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  __shared__ volatile int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    while (ready == 0) {}
  } else {
    __syncthreads();
    if (threadIdx.x == 255) ready = 1;
  }
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) out0[blockIdx.x] = sum;
}
