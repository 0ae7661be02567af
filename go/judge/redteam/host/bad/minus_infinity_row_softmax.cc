// kind: missing_minus_inf_row
// call: softmax_bf16
// dies: wrong_value
// gate: special
// why: gives 0 for a row that is masked everywhere, where eager gives NaN
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 259;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[1].p + r * n;
    float m = -__builtin_inff(), s = 0, e[n];
    for (int64_t i = 0; i < n; ++i) m = kf_max(m, kf_of(x[i]));
    for (int64_t i = 0; i < n; ++i) s += e[i] = m == -__builtin_inff() ? 0.0f : kf_exp(kf_of(x[i]) - m);
    for (int64_t i = 0; i < n; ++i) y[i] = kf_to_bf16(s > 0 || s != s ? e[i] / s : 0.0f);
  }
}
