// kind: half precision through double
// call: silu_fp16_odd
// why: more precision than is needed
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    double v = kf_of(x[i]);
    y[i] = kf_to_f16(float(v / (1 + __builtin_exp(-v))));
  }
}
