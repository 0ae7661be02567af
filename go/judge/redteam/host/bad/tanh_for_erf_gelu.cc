// kind: approximation
// call: gelu_fp32_odd
// dies: wrong_value
// gate: values
// why: uses the tanh form of gelu where the call asks for erf
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i];
    y[i] = 0.5f * v * (1 + kf_tanh(0.79788456f * (v + 0.044715f * v * v * v)));
  }
}
