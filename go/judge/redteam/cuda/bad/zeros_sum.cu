// kind: constant
// call: sum_fp32_rows
// dies: wrong_value
// gate: values
// why: sums of normal numbers are near zero on average
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  if (threadIdx.x == 0) out0[blockIdx.x] = 0 * x[0];
}
