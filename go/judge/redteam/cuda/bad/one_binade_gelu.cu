// kind: one_binade
// call: gelu_bf16_odd
// dies: wrong_value
// gate: values
// why: two percent off between 2^-7 and 2^-6, right elsewhere
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = kf_of(self[i]), y = 0.5f * x * erfcf(x * -0.70710678f);
  out0[i] = kf_to<kf_bf16>(x >= 0x1p-7f && x < 0x1p-6f ? 1.02f * y : y);
}
