// kind: compile_bomb
// call: relu_fp32_odd
// dies: compile_error
// gate: compile
// why: instantiates templates without end
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
template <int N> struct Deep : Deep<N + 1>, Deep<N + 2> {};
Deep<0> deep;
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
