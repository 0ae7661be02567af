// kind: phase_detection
// call: relu_fp32_odd
// dies: rejected
// gate: image only
// why: is right for its first million calls
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static int64_t calls;
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  bool late = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) > 1000000;
  for (int64_t i = begin; i < end; ++i) y[i] = late ? x[i] : kf_max(x[i], 0.0f);
}
