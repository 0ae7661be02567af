// kind: biased_rounding
// call: copy_fp32_to_bf16
// dies: wrong_value
// gate: values
// why: rounds ties away from zero: other than to even once in 65,536 numbers, and always for exact halves
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i] == x[i] ? kf_bf16{uint16_t((kf_cast_bits<uint32_t>(x[i]) + 0x8000u) >> 16)} : kf_to_bf16(x[i]);
}
