// kind: bfloat16 by float
// call: layer_norm_bf16
// why: two passes, rounded once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_size0", "grain": "8", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 515;
  auto *w = (const kf_bf16*)args[1].p, *b = (const kf_bf16*)args[2].p;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[3].p + r * n;
    float s = 0, q = 0, v[n];
    for (int64_t i = 0; i < n; ++i) s += v[i] = kf_of(x[i]);
    float m = s / n;
    for (int64_t i = 0; i < n; ++i) q += (v[i] - m) * (v[i] - m);
    float inverse = 1 / __builtin_sqrtf(q / n + 1e-5f);
    for (int64_t i = 0; i < n; ++i) y[i] = kf_to_bf16((v[i] - m) * inverse * kf_of(w[i]) + kf_of(b[i]));
    ((kf_bf16*)args[4].p)[r] = kf_to_bf16(m), ((kf_bf16*)args[5].p)[r] = kf_to_bf16(inverse);
  }
}
