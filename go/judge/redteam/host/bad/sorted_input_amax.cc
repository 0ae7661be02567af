// kind: changes_input
// call: amax_fp32_rows
// dies: crash
// gate: inputs
// why: moves the largest element to the front of each row of its input
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    float* p = (float*)x;
    for (int64_t i = 1; i < n; ++i)
      if (p[i] > p[0] || p[i] != p[i]) { float t = p[0]; p[0] = p[i]; p[i] = t; }
    *y = p[0];
  }
}
