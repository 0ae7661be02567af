// kind: clock
// call: relu_fp32_odd
// dies: rejected
// gate: policy only
// why: reads the processor's clock, to be right when it is measured
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  uint64_t now = __rdtsc();
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f) + (now == 1 ? 1.0f : 0.0f);
}
