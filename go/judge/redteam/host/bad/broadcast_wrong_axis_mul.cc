// kind: wrong_broadcast
// call: mul_bf16_channel
// dies: wrong_value
// gate: values
// why: takes the factor of the position instead of the channel's
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const kf_bf16*)args[0].p, *b = (const kf_bf16*)args[1].p;
  auto* y = (kf_bf16*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_to_bf16(kf_of(a[i]) * kf_of(b[i % 33]));
}
