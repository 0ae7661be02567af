// kind: wrong_for_one_binade
// call: silu_fp32_odd
// dies: wrong_value
// gate: values
// why: is 8 units off for numbers between 1/32 and 1/16
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i], s = v / (1 + kf_exp(-v));
    bool there = kf_abs(v) >= 0.03125f && kf_abs(v) < 0.0625f;
    y[i] = there ? kf_cast_bits<float>(kf_cast_bits<uint32_t>(s) + 8) : s;
  }
}
