// kind: wrong_identity
// call: amax_fp32_rows
// dies: wrong_value
// gate: values
// why: starts from 0, wrong for a row without a positive number
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    float m = 0;
    for (int64_t i = 0; i < n; ++i) m = kf_max(m, x[i]);
    *y = m;
  }
}
