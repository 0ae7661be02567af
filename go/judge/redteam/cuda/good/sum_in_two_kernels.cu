// kind: workspace between two kernels
// call: sum_fp32_rows
// why: parts of rows go to a workspace, and a second kernel joins them
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "self_size0 * ceildiv(self_size1, 512) * 4", "zeroed": false}], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size1, 512)", "self_size0", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"int": "self_size1", "type": "i32"}]}, {"entry": "kf_join", "grid": ["ceildiv(self_size0, 64)", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "ws0"}, {"slot": "out0"}, {"int": "ceildiv(self_size1,512)", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* ws0, int n) {
  const float* x = self + int64_t(blockIdx.y) * n;
  float sum = 0;
  for (int i = blockIdx.x * 512 + threadIdx.x; i < min(n, int(blockIdx.x) * 512 + 512); i += 256) sum += x[i];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) ws0[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}
KF_KERNEL(64) void kf_join(const float* ws0, float* out0, int parts, int rows) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int k = 0; k < parts; ++k) sum += ws0[row * parts + k];
  out0[row] = sum;
}
