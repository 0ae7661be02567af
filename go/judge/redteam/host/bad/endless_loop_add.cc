// kind: hang
// call: add_fp32_odd
// dies: timeout
// gate: deadline
// why: never ends
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) { for (volatile int i = 0;; ++i) {} }
