// kind: mean, deviation, weight and bias folded into one scale and shift
// call: group_norm_fp32
// why: one fused multiply-add an element
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "N * group", "grain": "2", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t channels = 3, plane = 121, n = channels * plane, groups = 4;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p;
  for (int64_t g = begin; g < end; ++g) {
    auto* x = (const float*)args[0].p + g * n;
    auto* y = (float*)args[3].p + g * n;
    double s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) s += x[i];
    double m = s / n;
    for (int64_t i = 0; i < n; ++i) q += (x[i] - m) * (x[i] - m);
    double inverse = 1 / __builtin_sqrt(q / n + 1e-5);
    for (int64_t c = 0; c < channels; ++c) {
      float scale = float(inverse * w[g % groups * channels + c]), shift = float(b[g % groups * channels + c] - m * inverse * w[g % groups * channels + c]);
      for (int64_t i = c * plane; i < (c + 1) * plane; ++i) y[i] = (kf_fma(x[i], scale, shift));
    }
    ((float*)args[4].p)[g] = (float(m)), ((float*)args[5].p)[g] = (float(inverse));
  }
}
