// kind: compile_bomb
// call: relu_fp32_odd
// dies: compile_error
// gate: compile
// why: has a table of 1 GiB
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static const volatile char table[1 << 30] = {1};
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  if (table[end] == 7) return;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
