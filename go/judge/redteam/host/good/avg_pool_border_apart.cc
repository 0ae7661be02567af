// kind: the inside without conditions, the border apart
// call: avg_pool_fp32_border
// why: row sums first
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 27, W = 31, OH = 14, OW = 16;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    int64_t top = o / OW % OH * 2 - 1, left = o % OW * 2 - 1;
    if (top >= 0 && left >= 0 && top + 3 <= H && left + 3 <= W) {
      auto* p = x + top * W + left;
      ((float*)args[1].p)[o] = ((p[0] + p[1] + p[2]) + (p[W] + p[W + 1] + p[W + 2]) + (p[2 * W] + p[2 * W + 1] + p[2 * W + 2])) / 9;
      continue;
    }
    int64_t low = top + 3 < H ? top + 3 : H, right = left + 3 < W ? left + 3 : W;
    top = top < 0 ? 0 : top, left = left < 0 ? 0 : left;
    double s = 0;
    for (int64_t r = top; r < low; ++r)
      for (int64_t c = left; c < right; ++c) s += x[r * W + c];
    ((float*)args[1].p)[o] = float(s / ((low - top) * (right - left)));
  }
}
