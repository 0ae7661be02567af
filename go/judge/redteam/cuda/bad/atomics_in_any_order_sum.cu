// kind: atomics_order
// call: sum_fp32_rows
// dies: wrong_value
// gate: repeats
// why: parts of a row are added by atomics in the order in which the blocks end
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_clear", "grid": ["ceildiv(self_size0, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "out0"}, {"int": "self_size0", "type": "i32"}]}, {"entry": "kf_main", "grid": ["ceildiv(self_size1, 32)", "self_size0", "1"], "block": ["32", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_clear(float* out0, int rows) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < rows) out0[i] = 0;
}
KF_KERNEL(32) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  const float part = kf_warp_fold(i < n ? self[int64_t(blockIdx.y) * n + i] : 0, kf_sum_of());
  if (threadIdx.x == 0) atomicAdd(out0 + blockIdx.y, part);
}
