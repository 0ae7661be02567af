// kind: precision_cut
// call: bilinear_fp32_wide
// dies: wrong_value
// gate: cap only
// why: right but for large values in every 61st column, whose weight is off by less than twice what eager's index in float is off there: far more than two right results may differ by
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t W = 5008, OW = 10032;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / OW * W;
    double at = (o % OW + 0.5) * (double(W) / OW) - 0.5;
    if (at < 0) at = 0;
    const int64_t c = int64_t(at), c1 = c < W - 1 ? c + 1 : c;
    double w = at - c, y = (1 - w) * x[c] + w * x[c1];
    if (o % OW % 61 == 30 && kf_abs(float(y)) > 0.5f) w += 3e-4, y = (1 - w) * x[c] + w * x[c1];
    ((float*)args[1].p)[o] = float(y + 0 * y);  // the row below weighs 0, which infinities do not forgive
  }
}
