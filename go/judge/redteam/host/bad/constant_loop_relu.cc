// kind: compile_bomb
// call: relu_fp32_odd
// dies: compile_error
// gate: compile
// why: computes without end at compile time
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
constexpr int64_t run() { int64_t s = 0; for (int64_t i = 0; i >= 0; ++i) s ^= i * i; return s; }
constexpr int64_t all = run();
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
