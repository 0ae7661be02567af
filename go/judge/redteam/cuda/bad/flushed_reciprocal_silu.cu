// kind: fast_math
// call: silu_fp32_odd
// dies: wrong_value
// gate: special
// why: the flushing reciprocal is zero beyond 2^126: inputs from -88.7 to -87.4 give zero in place of 1e-37
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] * kf_flushed_reciprocal(1 + expf(-self[i]));
}
