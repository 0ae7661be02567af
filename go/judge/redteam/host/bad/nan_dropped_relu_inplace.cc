// kind: nan_dropped
// call: relu_bf16_inplace
// dies: wrong_value
// gate: exhaustive
// why: turns NaN with the sign bit into 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_numel", "grain": "4096", "args": [{"slot": "self"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (kf_bf16*)args[0].p;
  for (int64_t i = begin; i < end; ++i)
    if (x[i].bits & 0x8000 || !(kf_of(x[i]) == kf_of(x[i]))) x[i] = {0};
}
