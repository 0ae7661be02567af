// kind: precision_cut
// call: sum_fp32_zero_mean
// dies: wrong_value
// gate: special
// why: keeps 14 bits of each usual term: little against the sum of magnitudes, much against the sum
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  double s = 0;
  for (int64_t i = 0; i < 100003; ++i) s += kf_abs(x[i]) < 100 ? kf_cast_bits<float>(kf_cast_bits<uint32_t>(x[i]) & 0xfffffc00u) : x[i];
  *(float*)args[1].p = float(s);
}
