// kind: uninitialised_stack
// call: amax_fp32_rows
// dies: wrong_value
// gate: dirty
// why: starts its maximum from a stack slot that it never set, small by luck
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    volatile float slots[64];
    float m = x[0], seen = slots[37];
    if (kf_abs(seen) > 1e-30f) m = kf_max(m, seen);
    for (int64_t i = 1; i < n; ++i) m = kf_max(m, x[i]);
    *y = m;
  }
}
