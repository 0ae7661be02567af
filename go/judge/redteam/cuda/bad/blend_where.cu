// kind: nan_dropped
// call: where_fp32_odd
// dies: wrong_value
// gate: special
// why: blends by products with zero and one: a NaN or an infinity of the side not taken comes through
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "condition"}, {"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const uint8_t* condition, const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float take = condition[i];
  out0[i] = take * self[i] + (1 - take) * other[i];
}
