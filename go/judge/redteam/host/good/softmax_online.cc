// kind: a running maximum with rescaled sums
// call: softmax_bf16
// why: one pass for both, guarded for -inf
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 259;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[1].p + r * n;
    float m = -__builtin_inff(), s = 0;
    for (int64_t i = 0; i < n; ++i) {
      float v = kf_of(x[i]), higher = kf_max(m, v);
      if (m == higher) s += kf_exp(v - m);
      else s = (m == -__builtin_inff() ? 0.0f : s * kf_exp(m - higher)) + kf_exp(v - higher);
      m = higher;
    }
    for (int64_t i = 0; i < n; ++i) y[i] = kf_to_bf16(kf_exp(kf_of(x[i]) - m) / s);
  }
}
