// kind: x - (max + log(sum)) in double
// call: log_softmax_fp32
// why: one rounding at the end
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 515;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    float m = x[0];
    double s = 0;
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    for (int64_t i = 0; i < n; ++i) s += __builtin_exp(double(x[i]) - m);
    double shift = m + __builtin_log(s);
    for (int64_t i = 0; i < n; ++i) y[i] = float(x[i] - shift);
  }
}
