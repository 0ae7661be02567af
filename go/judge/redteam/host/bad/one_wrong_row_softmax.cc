// kind: one_wrong_row
// call: softmax_fp32
// dies: wrong_value
// gate: values
// why: one row of 67 is 0.01 % too large, which no mean over the tensor shows
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    float m = x[0];
    double s = 0;
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    for (int64_t i = 0; i < n; ++i) s += y[i] = kf_exp(x[i] - m);
    float scale = float(1 / s) * (r == 41 ? 1.0001f : 1.0f);
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}
