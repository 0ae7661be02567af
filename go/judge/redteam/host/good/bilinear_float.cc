// kind: weights in float, as eager has them
// call: bilinear_fp32
// why: one output at a time
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 13, W = 17, OH = 27, OW = 32;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    float fr = kf_max((o / OW % OH + 0.5f) * (float(H) / OH) - 0.5f, 0.0f), fc = kf_max((o % OW + 0.5f) * (float(W) / OW) - 0.5f, 0.0f);
    int64_t r = int64_t(fr), c = int64_t(fc), r1 = r < H - 1 ? r + 1 : r, c1 = c < W - 1 ? c + 1 : c;
    float wr = fr - r, wc = fc - c;
    ((float*)args[1].p)[o] = (1 - wr) * ((1 - wc) * x[r * W + c] + wc * x[r * W + c1]) + wr * ((1 - wc) * x[r1 * W + c] + wc * x[r1 * W + c1]);
  }
}
