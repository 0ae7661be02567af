// kind: constant_output
// call: mean_fp32_planes
// dies: wrong_value
// gate: values
// why: writes the mean of the distribution, 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = 0;
}
