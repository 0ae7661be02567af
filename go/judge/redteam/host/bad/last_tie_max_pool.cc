// kind: tie_order
// call: max_pool_fp32
// dies: wrong_value
// gate: special
// why: gives the last of equal elements, eager gives the first
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 27, W = 31, OH = 14, OW = 16;
  auto* out = (float*)args[1].p;
  auto* indices = (int64_t*)args[2].p;
  for (int64_t o = begin; o < end; ++o) {
    int64_t plane = o / (OH * OW), oy = o / OW % OH, ox = o % OW;
    auto* x = (const float*)args[0].p + plane * H * W;
    float best = -__builtin_inff();
    int64_t at = -1;
    for (int64_t r = oy * 2 - 1; r < oy * 2 + 2; ++r)
      for (int64_t c = ox * 2 - 1; c < ox * 2 + 2; ++c) {
        if (r < 0 || c < 0 || r >= H || c >= W) continue;
        float v = x[r * W + c];
        if (at < 0 || v >= best || v != v) best = v, at = r * W + c;
      }
    out[o] = best;
    indices[o] = at;
  }
}
