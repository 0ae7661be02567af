// kind: denormals
// call: add_fp32_odd
// dies: wrong_value
// gate: special
// why: results below the normal numbers become zero
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float sum = self[i] + other[i];
  out0[i] = fabsf(sum) < 0x1p-126f ? 0 : sum;
}
