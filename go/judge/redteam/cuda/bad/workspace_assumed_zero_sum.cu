// kind: uninitialised_workspace
// call: sum_fp32_rows
// dies: wrong_value
// gate: values
// why: adds onto a workspace that it neither clears nor asks to be cleared
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "self_size0 * 4", "zeroed": false}], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size1, 1024)", "self_size0", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"int": "self_size1", "type": "i32"}]}, {"entry": "kf_copy", "grid": ["ceildiv(self_size0, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "ws0"}, {"slot": "out0"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* ws0, int n) {
  const float* x = self + int64_t(blockIdx.y) * n;
  float sum = 0;
  for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, int(blockIdx.x) * 1024 + 1024); i += 256) sum += x[i];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) atomicAdd(ws0 + blockIdx.y, sum);
}
KF_KERNEL(256) void kf_copy(const float* ws0, float* out0, int rows) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < rows) out0[i] = ws0[i];
}
