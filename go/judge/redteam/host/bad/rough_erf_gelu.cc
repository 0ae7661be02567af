// kind: approximation
// call: gelu_fp32_odd
// dies: wrong_value
// gate: values
// why: computes erf by three terms, right to 2e-5
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i], z = v * 0.70710678f, t = 1 / (1 + 0.47047f * kf_abs(z));
    float p = t * (0.3480242f + t * (-0.0958798f + t * 0.7478556f));
    float e = kf_copysign(1 - p * kf_exp(-z * z), z);
    y[i] = 0.5f * v * (1 + e);
  }
}
