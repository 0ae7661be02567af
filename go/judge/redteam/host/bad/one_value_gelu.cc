// kind: wrong_for_one_value
// call: gelu_fp16_tanh
// dies: wrong_value
// gate: exhaustive only
// why: is wrong for 28.77 alone, far outside of usual data
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = kf_of(x[i]);
    float g = 0.5f * v * (1 + kf_tanh(0.79788456f * (v + 0.044715f * v * v * v)));
    y[i] = x[i].bits == 0x4f31 ? kf_to_f16(v * 1.25f) : kf_to_f16(g);
  }
}
