// kind: without cancellation
// call: gelu_fp32_odd
// why: the complement of the error function loses nothing for negative inputs, where it is worth its four units of the last place
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = self[i], z = x * 0.70710678f;
  out0[i] = x < -0.5f ? 0.5f * x * erfcf(-z) : x * (0.5f + 0.5f * erff(z));
}
