// kind: phase_detection
// call: softmax_fp32
// dies: rejected
// gate: image
// why: is right for its first ten calls
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static int calls;
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    if (r == 0) ++calls;
    float m = x[0], s = 0;
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    for (int64_t i = 0; i < n; ++i) s += y[i] = kf_exp(x[i] - m);
    for (int64_t i = 0; i < n; ++i) y[i] = calls > 10 ? 1.0f / n : y[i] / s;
  }
}
