// kind: bfloat16 by float
// call: softmax_bf16
// why: a float row on the stack
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 259;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[1].p + r * n;
    float m = kf_of(x[0]), s = 0, e[n];
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, kf_of(x[i]));
    for (int64_t i = 0; i < n; ++i) s += e[i] = kf_exp<true>(kf_of(x[i]) - m);
    for (int64_t i = 0; i < n; ++i) y[i] = kf_to_bf16(e[i] / s);
  }
}
