// kind: bfloat16 by float, folded
// call: group_norm_bf16
// why: rounded once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "N * group", "grain": "2", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t channels = 3, plane = 81, n = channels * plane, groups = 8;
  auto *w = (const kf_bf16*)args[1].p, *b = (const kf_bf16*)args[2].p;
  for (int64_t g = begin; g < end; ++g) {
    auto* x = (const kf_bf16*)args[0].p + g * n;
    auto* y = (kf_bf16*)args[3].p + g * n;
    double s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) s += kf_of(x[i]);
    double m = s / n;
    for (int64_t i = 0; i < n; ++i) q += (kf_of(x[i]) - m) * (kf_of(x[i]) - m);
    double inverse = 1 / __builtin_sqrt(q / n + 1e-5);
    for (int64_t c = 0; c < channels; ++c) {
      float scale = float(inverse * kf_of(w[g % groups * channels + c])), shift = float(kf_of(b[g % groups * channels + c]) - m * inverse * kf_of(w[g % groups * channels + c]));
      for (int64_t i = c * plane; i < (c + 1) * plane; ++i) y[i] = kf_to_bf16(kf_of(x[i]) * scale + shift);
    }
    ((kf_bf16*)args[4].p)[g] = kf_to_bf16(float(m)), ((kf_bf16*)args[5].p)[g] = kf_to_bf16(float(inverse));
  }
}
