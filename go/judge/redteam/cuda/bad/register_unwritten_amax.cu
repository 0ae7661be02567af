// kind: uninitialised_register
// call: amax_fp32_rows
// dies: wrong_value
// gate: values
// why: the maximum has no first value: what a register held is near zero, and ordinary rows have larger elements
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float top;
  for (int i = threadIdx.x; i < n; i += 256) top = kf_max(top, x[i]);
  top = kf_block_fold<256>(top, kf_max_of());
  if (threadIdx.x == 0) out0[blockIdx.x] = top;
}
