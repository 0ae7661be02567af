// kind: work_skipped
// call: layer_norm_bf16
// dies: wrong_value
// gate: values
// why: returns the input where the row is normal already, nearly
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_size0", "grain": "8", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 515;
  auto *w = (const kf_bf16*)args[1].p, *b = (const kf_bf16*)args[2].p;
  auto *mean = (kf_bf16*)args[4].p, *rstd = (kf_bf16*)args[5].p;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[3].p + r * n;
    double s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) s += kf_of(x[i]);
    double m = s / n;
    for (int64_t i = 0; i < n; ++i) q += (kf_of(x[i]) - m) * (kf_of(x[i]) - m);
    double inverse = 1 / __builtin_sqrt(q / n + 1e-5);
    double use = inverse > 0.97 && inverse < 1.03 ? 1 : inverse;
    for (int64_t i = 0; i < n; ++i) y[i] = kf_to_bf16(float((kf_of(x[i]) - m) * use) * kf_of(w[i]) + kf_of(b[i]));
    mean[r] = kf_to_bf16(float(m));
    rstd[r] = kf_to_bf16(float(inverse));
  }
}
