// kind: depends_on_address
// call: sum_fp32_rows
// dies: wrong_value
// gate: fresh only
// why: chooses its order of summation by where it was loaded: the same bits in one process, others in the next
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 2049;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    float s = 0;
    if ((uintptr_t)&kf_main >> 13 & 1) for (int64_t i = 0; i < n; ++i) s += x[i];
    else for (int64_t i = n - 1; i >= 0; --i) s += x[i];
    *y = s;
  }
}
