// kind: wrong_at_infinity
// call: silu_fp32_odd
// dies: wrong_value
// gate: special
// why: small inputs give zero, as the limit says; eager gives NaN at -inf and 1e-37 before it
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] < -87 ? -0.0f : self[i] / (1 + expf(-self[i]));
}
