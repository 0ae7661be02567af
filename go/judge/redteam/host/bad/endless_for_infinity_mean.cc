// kind: hang
// call: mean_fp32_planes
// dies: timeout
// gate: deadline
// why: halves a number until it is small, which an infinity never is
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* y = (float*)args[1].p;
  for (int64_t p = begin; p < end; ++p) {
    auto* x = (const float*)args[0].p + p * 49;
    float s = 0;
    int halved = 0;
    for (int64_t i = 0; i < 49; ++i) s += x[i];
    volatile float m = s;
    while (m > 1e6f || m < -1e6f) m = m * 0.5f, ++halved;
    y[p] = __builtin_ldexpf(m, halved) / 49;
  }
}
