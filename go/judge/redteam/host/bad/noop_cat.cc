// kind: noop
// call: cat_bf16_last
// dies: wrong_value
// gate: poison
// why: does nothing, for an operator that only moves data
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "tensors_0"}, {"slot": "tensors_1"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) {}
