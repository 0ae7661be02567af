// kind: another form of the formula
// call: gelu_fp16_tanh
// why: 1 + tanh(z) is two sigmoids of 2 z
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = kf_of(self[i]);
  out0[i] = kf_to<kf_f16>(x / (1 + expf(-1.5957691f * (x + 0.044715f * x * x * x))));
}
