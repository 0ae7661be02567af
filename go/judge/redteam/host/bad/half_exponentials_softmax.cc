// kind: fp16_intermediate
// call: softmax_fp32
// dies: wrong_value
// gate: values
// why: keeps the exponentials in float16 to save memory
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    float m = x[0], s = 0;
    kf_f16 e[n];
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    for (int64_t i = 0; i < n; ++i) s += kf_of(e[i] = kf_to_f16(kf_exp(x[i] - m)));
    for (int64_t i = 0; i < n; ++i) y[i] = kf_of(e[i]) / s;
  }
}
