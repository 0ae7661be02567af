// kind: race_across_blocks
// call: sum_fp32_rows
// dies: wrong_value
// gate: values
// why: several blocks add to one sum without atomics
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_clear", "grid": ["ceildiv(self_size0, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "out0"}, {"int": "self_size0", "type": "i32"}]}, {"entry": "kf_main", "grid": ["ceildiv(self_size1, 256)", "self_size0", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_clear(float* out0, int rows) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < rows) out0[i] = 0;
}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float part = kf_block_fold<256>(i < n ? self[int64_t(blockIdx.y) * n + i] : 0, kf_sum_of());
  volatile float* sum = out0 + blockIdx.y;
  if (threadIdx.x == 0) *sum = *sum + part;
}
