// kind: device_malloc
// call: sum_fp32_rows
// dies: rejected
// gate: policy
// why: takes memory until the device's heap is empty
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  while (malloc(1 << 20) != nullptr) {}
  if (threadIdx.x == 0) out0[blockIdx.x] = sum;
}
