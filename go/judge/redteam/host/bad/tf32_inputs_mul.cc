// kind: tf32_truncation
// call: mul_fp32_odd
// dies: wrong_value
// gate: values
// why: cuts its factors to the 10 bits of TF32
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* a = (const float*)args[0].p;
  auto* b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  auto cut = [](float v) { return kf_cast_bits<float>(kf_cast_bits<uint32_t>(v) & 0xffffe000u); };
  for (int64_t i = begin; i < end; ++i) y[i] = cut(a[i]) * cut(b[i]);
}
