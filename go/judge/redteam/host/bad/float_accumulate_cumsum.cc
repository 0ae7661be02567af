// kind: fp32_accumulate
// call: cumsum_fp32
// dies: wrong_value
// gate: values
// why: carries its sum in float, where eager's on the host is in double
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1025;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    float s = 0;
    for (int64_t i = 0; i < n; ++i) y[i] = s += x[i];
  }
}
