// kind: hardware vectors with masked tails
// call: softmax_fp32
// why: lanes beyond the row count nothing
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    constexpr int64_t L = kf_lanes<float>;
    float m = x[0];
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    kf_f32 s = {};
    int64_t i = 0;
    for (; i + L <= n; i += L) {
      kf_f32 e = kf_exp(kf_load(x + i) - m);
      kf_store(y + i, e);
      s = s + e;
    }
    float all = kf_hsum(s);
    for (; i < n; ++i) all += y[i] = kf_exp(x[i] - m);
    for (i = 0; i < n; ++i) y[i] /= all;
  }
}
