// kind: approximation
// call: softmax_fp32
// dies: wrong_value
// gate: values
// why: takes the exponential from the bits of a float, 3 % wrong
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    auto quick = [](float v) { return kf_cast_bits<float>(int32_t(kf_max(v, -87.0f) * 12102203.0f) + 1064866805); };
    float m = x[0], s = 0;
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    for (int64_t i = 0; i < n; ++i) s += y[i] = quick(x[i] - m);
    for (int64_t i = 0; i < n; ++i) y[i] /= s;
  }
}
