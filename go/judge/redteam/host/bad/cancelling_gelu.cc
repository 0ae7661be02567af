// kind: cancellation
// call: gelu_fp32_odd
// dies: wrong_value
// gate: values
// why: computes erf with an absolute error of 1e-7, which is all of gelu's left tail
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i], z = v * 0.70710678f, t = 1 / (1 + 0.3275911f * kf_abs(z));
    float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float e = kf_copysign(1 - p * kf_exp(-z * z), z);
    y[i] = 0.5f * v * (1 + e);
  }
}
