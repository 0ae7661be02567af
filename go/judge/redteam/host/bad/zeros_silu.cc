// kind: constant_output
// call: silu_bf16_odd
// dies: wrong_value
// gate: values
// why: writes zeros
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = {0};
}
