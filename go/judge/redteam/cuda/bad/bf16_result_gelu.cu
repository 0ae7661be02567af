// kind: double_rounding
// call: gelu_fp16_tanh
// dies: wrong_value
// gate: values
// why: the result passes through bf16
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = kf_of(self[i]), z = 0.7978845608f * (x + 0.044715f * x * x * x);
  out0[i] = kf_to<kf_f16>(kf_of(kf_to<kf_bf16>(0.5f * x * (1 + tanhf(z)))));
}
