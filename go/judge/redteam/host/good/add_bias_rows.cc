// kind: row by row, the bias held in a register block
// call: add_fp16_bias
// why: the bias is widened once a part
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel / 65", "grain": "64", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const kf_f16*)args[0].p, *b = (const kf_f16*)args[1].p;
  auto* y = (kf_f16*)args[2].p;
  float bias[65];
  for (int c = 0; c < 65; ++c) bias[c] = kf_of(b[c]);
  for (int64_t r = begin; r < end; ++r)
    for (int c = 0; c < 65; ++c) y[r * 65 + c] = kf_to_f16(kf_of(a[r * 65 + c]) + bias[c]);
}
