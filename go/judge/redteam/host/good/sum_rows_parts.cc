// kind: parts of 64 in float, the parts in double
// call: sum_fp32_rows
// why: two levels
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 2049;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    double all = 0;
    for (int64_t i = 0; i < n; i += 64) {
      float part = 0;
      for (int64_t k = i; k < n && k < i + 64; ++k) part += x[k];
      all += part;
    }
    *y = float(all);
  }
}
