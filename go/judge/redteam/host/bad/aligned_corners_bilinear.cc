// kind: scalar_ignored
// call: bilinear_fp32
// dies: wrong_value
// gate: values
// why: aligns the corners, which the call does not ask for
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 13, W = 17, OH = 27, OW = 32;
  auto* y = (float*)args[1].p;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    float fr = (o / OW % OH) * (float(H - 1) / (OH - 1)), fc = (o % OW) * (float(W - 1) / (OW - 1));
    int64_t r = int64_t(fr), c = int64_t(fc), r1 = r < H - 1 ? r + 1 : r, c1 = c < W - 1 ? c + 1 : c;
    float wr = fr - r, wc = fc - c;
    y[o] = (1 - wr) * ((1 - wc) * x[r * W + c] + wc * x[r * W + c1]) + wr * ((1 - wc) * x[r1 * W + c] + wc * x[r1 * W + c1]);
  }
}
