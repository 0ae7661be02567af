// kind: truncated_rounding
// call: add_bf16_odd
// dies: wrong_value
// gate: values
// why: cuts the sum off instead of rounding it to bfloat16
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const kf_bf16*)args[0].p, *b = (const kf_bf16*)args[1].p;
  auto* y = (kf_bf16*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = {uint16_t(kf_cast_bits<uint32_t>(kf_of(a[i]) + kf_of(b[i])) >> 16)};
}
