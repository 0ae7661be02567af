// kind: out_of_bounds_write
// call: gelu_fp32_odd
// dies: crash
// gate: guard_pages
// why: writes a page before its output
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = 0.5f * x[i] * (1 + kf_erf(x[i] * 0.70710678f));
  if (begin == 0) ((volatile float*)y)[-1024 * 64] = 0;
}
