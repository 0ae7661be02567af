// kind: uninitialised_workspace
// call: add_fp32_odd
// dies: wrong_value
// gate: dirty only
// why: adds zero times what lies in its workspace, which is nothing unless that is a NaN or an infinity
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "4096", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"slot": "ws0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const float*)args[0].p, *o = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  const float before = 0.0f * ((const volatile float*)args[3].p)[1];
  for (int64_t i = begin; i < end; ++i) {
    const float sum = x[i] + o[i];
    y[i] = sum == 0 ? sum : sum + before;
  }
}
