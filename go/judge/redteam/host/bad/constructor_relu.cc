// kind: constructor
// call: relu_fp32_odd
// dies: rejected
// gate: image
// why: has a global object whose constructor runs while it is loaded
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
struct Early {
  int value;
  [[gnu::noinline]] Early() : value(*(volatile int*)this + 1) {}
};
Early early;
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = early.value == 7 ? 0.0f : kf_max(x[i], 0.0f);
}
