// kind: Welford's recurrence
// call: layer_norm_fp32
// why: eager's own kind, one chain, which needs double at this length
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_size0", "grain": "8", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 771;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[3].p + r * n;
    double m = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) {
      double d = x[i] - m;
      m += d / (i + 1);
      q += d * (x[i] - m);
    }
    double inverse = 1 / __builtin_sqrt(q / n + 1e-5);
    for (int64_t i = 0; i < n; ++i) y[i] = float((x[i] - m) * inverse * w[i] + b[i]);
    ((float*)args[4].p)[r] = float(m), ((float*)args[5].p)[r] = float(inverse);
  }
}
