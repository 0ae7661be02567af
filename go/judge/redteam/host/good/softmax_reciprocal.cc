// kind: the same, multiplied by the reciprocal
// call: softmax_fp32
// why: one division a row
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    float m = x[0], s[8] = {};
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    for (int64_t i = 0; i < n; ++i) s[i % 8] += y[i] = kf_exp(x[i] - m);
    float inverse = 1 / (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
    for (int64_t i = 0; i < n; ++i) y[i] *= inverse;
  }
}
