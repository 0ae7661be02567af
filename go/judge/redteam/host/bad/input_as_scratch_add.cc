// kind: changes_input
// call: add_fp32_odd
// dies: crash
// gate: inputs only
// why: sums in its input and puts back what was there: right to everybody who does not read it meanwhile
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (volatile float*)args[0].p;
  auto* o = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t i = begin; i < end; ++i) {
    const float kept = x[i];
    x[i] = kept + o[i];
    y[i] = x[i];
    x[i] = kept;
  }
}
