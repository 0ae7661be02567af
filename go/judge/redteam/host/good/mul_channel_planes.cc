// kind: plane by plane, one factor each
// call: mul_bf16_channel
// why: the factor of a plane is read once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0 * self_size1", "grain": "8", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const kf_bf16*)args[0].p, *b = (const kf_bf16*)args[1].p;
  auto* y = (kf_bf16*)args[2].p;
  for (int64_t p = begin; p < end; ++p) {
    float factor = kf_of(b[p % 33]);
    for (int64_t i = p * 221; i < (p + 1) * 221; ++i) y[i] = kf_to_bf16(kf_of(a[i]) * factor);
  }
}
