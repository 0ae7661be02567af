// kind: single_pass_variance
// call: group_norm_fp32
// dies: wrong_value
// gate: values
// why: computes the variance in one pass in float, right enough only while the mean is small against the spread
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "N * group", "grain": "2", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t channels = 3, plane = 121, n = channels * plane, groups = 4;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p;
  for (int64_t g = begin; g < end; ++g) {
    auto* x = (const float*)args[0].p + g * n;
    auto* y = (float*)args[3].p + g * n;
    float s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) s += x[i], q += x[i] * x[i];
    float m = s / n, inverse = 1 / __builtin_sqrtf(kf_max(q / n - m * m, 0.0f) + 1e-5f);
    for (int64_t i = 0; i < n; ++i) {
      int64_t c = g % groups * channels + i / plane;
      y[i] = (x[i] - m) * inverse * w[c] + b[c];
    }
    ((float*)args[4].p)[g] = m, ((float*)args[5].p)[g] = inverse;
  }
}
