// kind: inexact_sum
// call: sum_fp32_rows
// dies: wrong_value
// gate: exact only
// why: divides each term by 3 and the sum by 1/3: a rounding a term, that integers show
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 2049;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    double s = 0;
    for (int64_t i = 0; i < n; ++i) s += x[i] * 0.333333343f;
    *y = float(s * 2.9999999105930355);
  }
}
