// kind: depends_on_row
// call: bilinear_fp32_wide
// dies: wrong_value
// gate: metamorphic only
// why: odd planes by an index in float, as eager's, even ones by a better one: each is right enough, but a plane's bits depend on where it lies
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t W = 5008, OW = 10032;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / OW * W;
    double at = (o % OW + 0.5) * (double(W) / OW) - 0.5;
    if (o / OW & 1) at = (o % OW + 0.5f) * (float(W) / float(OW)) - 0.5f;
    if (at < 0) at = 0;
    const int64_t c = int64_t(at), c1 = c < W - 1 ? c + 1 : c;
    const double w = at - c, y = (1 - w) * x[c] + w * x[c1];
    ((float*)args[1].p)[o] = float(y + 0 * y);  // the row below weighs 0, which infinities do not forgive
  }
}
