// kind: wrong_for_small
// call: silu_fp16_odd
// dies: wrong_value
// gate: values
// why: takes silu(x) for x / 2 below 0.03
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = kf_of(x[i]);
    y[i] = kf_to_f16(kf_abs(v) < 0.03f ? v / 2 : v / (1 + kf_exp(-v)));
  }
}
