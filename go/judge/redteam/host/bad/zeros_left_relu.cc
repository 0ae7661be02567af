// kind: relies_on_zeroed_memory
// call: relu_fp16_odd
// dies: wrong_value
// gate: poison
// why: writes the positive values only: right where the allocator hands out zeros
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i)
    if (!(kf_of(x[i]) <= 0.0f)) y[i] = x[i];
}
