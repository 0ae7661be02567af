// kind: half precision by float
// call: gelu_bf16_odd
// why: rounded once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "256", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_bf16*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = kf_of(x[i]);
    y[i] = kf_to_bf16(0.5f * v * __builtin_erfcf(-v * 0.70710678f));
  }
}
