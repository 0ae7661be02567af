// kind: other_function
// call: gelu_fp32_odd
// dies: wrong_value
// gate: values
// why: the tanh formula, which is another function: off by up to 5e-4
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = self[i], z = 0.7978845608f * (x + 0.044715f * x * x * x);
  out0[i] = x / (1 + expf(-2 * z));
}
