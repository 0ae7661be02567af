// kind: the bias by a remainder
// call: add_fp16_bias
// why: an index a multiplication and a remainder away
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const kf_f16*)args[0].p, *b = (const kf_f16*)args[1].p;
  auto* y = (kf_f16*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_to_f16(kf_of(a[i]) + kf_of(b[i % 65]));
}
