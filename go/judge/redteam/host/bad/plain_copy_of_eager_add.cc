// kind: no_gain
// call: add_fp32_alpha
// dies: ok
// gate: timing only
// why: does what eager does, no faster
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* a = (const float*)args[0].p;
  auto* b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = a[i] + 0.3f * b[i];
}
