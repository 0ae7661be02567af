// kind: depends_on_row
// call: softmax_fp32
// dies: wrong_value
// gate: values
// why: shifts odd rows by half less than the maximum: right, but a row's bits depend on where it lies
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    float m = x[0], s = 0;
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    float shift = r & 1 ? m - 0.5f : m;
    if (!(kf_abs(m) < 1e6f)) shift = m;
    for (int64_t i = 0; i < n; ++i) s += y[i] = kf_exp(x[i] - shift);
    for (int64_t i = 0; i < n; ++i) y[i] /= s;
  }
}
