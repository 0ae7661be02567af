// kind: 1 + erf with the prelude's erf
// call: gelu_fp32_odd
// why: eager's own formula
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "256", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i];
    y[i] = v * 0.5f * (1 + kf_erf(v * 0.70710678f));
  }
}
