// kind: denormal_flush
// call: copy_fp32_to_bf16
// dies: wrong_value
// gate: special
// why: takes denormal floats for 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_to_bf16(kf_abs(x[i]) < 0x1p-126f ? 0.0f : x[i]);
}
