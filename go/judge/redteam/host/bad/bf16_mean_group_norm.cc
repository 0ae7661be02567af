// kind: bf16_intermediate
// call: group_norm_bf16
// dies: wrong_value
// gate: values
// why: rounds the mean to bfloat16 before it subtracts it
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "N * group", "grain": "2", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t channels = 3, plane = 81, n = channels * plane, groups = 8;
  auto *w = (const kf_bf16*)args[1].p, *b = (const kf_bf16*)args[2].p;
  for (int64_t g = begin; g < end; ++g) {
    auto* x = (const kf_bf16*)args[0].p + g * n;
    auto* y = (kf_bf16*)args[3].p + g * n;
    float s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) s += kf_of(x[i]);
    kf_bf16 mean = kf_to_bf16(s / n);
    float m = kf_of(mean);
    for (int64_t i = 0; i < n; ++i) q += (kf_of(x[i]) - m) * (kf_of(x[i]) - m);
    float inverse = 1 / __builtin_sqrtf(q / n + 1e-5f);
    for (int64_t i = 0; i < n; ++i) {
      int64_t c = g % groups * channels + i / plane;
      y[i] = kf_to_bf16((kf_of(x[i]) - m) * inverse * kf_of(w[c]) + kf_of(b[c]));
    }
    ((kf_bf16*)args[4].p)[g] = mean;
    ((kf_bf16*)args[5].p)[g] = kf_to_bf16(inverse);
  }
}
