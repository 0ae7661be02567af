// kind: single_pass_variance
// call: layer_norm_fp32_offset
// dies: wrong_value
// gate: values
// why: computes the variance as the mean square less the squared mean, in float
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_size0", "grain": "8", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 515;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p;
  auto *mean = (float*)args[4].p, *rstd = (float*)args[5].p;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[3].p + r * n;
    float s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) s += x[i], q += x[i] * x[i];
    float m = s / n, inverse = 1 / __builtin_sqrtf(kf_max(q / n - m * m, 0.0f) + 1e-5f);
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * inverse * w[i] + b[i];
    mean[r] = m, rstd[r] = inverse;
  }
}
