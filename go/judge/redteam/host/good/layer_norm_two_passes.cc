// kind: mean, then squares of differences
// call: layer_norm_fp32
// why: sixteen sums side by side, as a float sum of this length needs
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_size0", "grain": "8", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 771;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[3].p + r * n;
    float sums[16] = {}, squares[16] = {}, s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) sums[i & 15] += x[i];
    for (float part : sums) s += part;
    float m = s / n;
    for (int64_t i = 0; i < n; ++i) squares[i & 15] += (x[i] - m) * (x[i] - m);
    for (float part : squares) q += part;
    float inverse = 1 / __builtin_sqrtf(q / n + 1e-5f);
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * inverse * w[i] + b[i];
    ((float*)args[4].p)[r] = m, ((float*)args[5].p)[r] = inverse;
  }
}
