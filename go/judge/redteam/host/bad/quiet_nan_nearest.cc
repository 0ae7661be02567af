// kind: nan_payload
// call: nearest_bf16
// dies: wrong_value
// gate: special
// why: takes its elements through a multiplication by 1, which flushes what is too small
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 13, W = 17, OH = 26, OW = 34;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const kf_bf16*)args[0].p + o / (OH * OW) * H * W;
    float v = kf_of(x[o / OW % OH / 2 * W + o % OW / 2]);
    y[o] = kf_to_bf16(kf_abs(v) < 0x1p-126f ? 0.0f : v);
  }
}
