// kind: fast_math
// call: gelu_fp32_odd
// dies: wrong_value
// gate: values
// why: the error function by a formula with five digits
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = self[i], z = fabsf(x) * 0.70710678f, t = 1 / (1 + 0.47047f * z);
  const float tail = t * (0.3480242f + t * (-0.0958798f + t * 0.7478556f)) * expf(-z * z);
  out0[i] = x >= 0 ? x * (1 - 0.5f * tail) : x * 0.5f * tail;
}
