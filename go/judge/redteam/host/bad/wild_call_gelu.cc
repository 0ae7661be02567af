// kind: wild_jump
// call: gelu_bf16_odd
// dies: crash
// gate: launch
// why: calls what lies at an address near 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) { ((void (*)())(args[0].i & 0xff0))(); }
