// kind: noop
// call: add_fp32_odd
// dies: wrong_value
// gate: poison
// why: does nothing, and hopes that the memory of the output still holds an older result
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) {}
