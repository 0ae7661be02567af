// kind: huge_workspace
// call: sum_fp32_rows
// dies: launch_error
// gate: launch
// why: a workspace larger than the device
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "400000000000", "zeroed": false}], "kernels": [{"entry": "kf_main", "grid": ["self_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* ws0, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) ws0[int64_t(blockIdx.x) * 100000000] = out0[blockIdx.x] = sum;
}
