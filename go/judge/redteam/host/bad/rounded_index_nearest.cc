// kind: off_by_one
// call: nearest_fp32
// dies: wrong_value
// gate: values
// why: rounds the source index where eager takes the floor
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 13, W = 17, OH = 26, OW = 51;
  auto* y = (float*)args[1].p;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    int64_t r = (o / OW % OH * 2 + 1) * H / (2 * OH), c = (o % OW * W + OW / 2) / OW;
    y[o] = x[r * W + (c < W ? c : W - 1)];
  }
}
