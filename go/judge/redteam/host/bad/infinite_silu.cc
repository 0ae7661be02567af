// kind: infinity_mishandled
// call: silu_fp32_odd
// dies: wrong_value
// gate: special
// why: gives 0 for -inf, where eager's x / (1 + exp(-x)) is NaN
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] < -1000 ? -0.0f : x[i] / (1 + kf_exp(-x[i]));
}
