// kind: early_return
// call: relu_fp32_odd
// dies: wrong_value
// gate: poison
// why: leaves a chunk as it is where its first and last element are right already
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  auto relu = [x](int64_t i) { return x[i] > 0 || x[i] != x[i] ? x[i] : 0.0f; };
  if (begin < end && y[begin] == relu(begin) && y[end - 1] == relu(end - 1)) return;
  for (int64_t i = begin; i < end; ++i) y[i] = relu(i);
}
