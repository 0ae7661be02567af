// kind: no_gain
// call: gelu_fp32_odd
// dies: ok
// gate: timing
// why: is right, and slower than eager
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    double v = x[i];
    y[i] = float(0.5 * v * __builtin_erfc(-v * 0.70710678118654752));
  }
}
