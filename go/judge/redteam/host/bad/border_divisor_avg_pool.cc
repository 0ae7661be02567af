// kind: wrong_divisor
// call: avg_pool_fp32_border
// dies: wrong_value
// gate: values
// why: divides by 9 at the border too, where fewer elements are
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 27, W = 31, OH = 14, OW = 16;
  auto* y = (float*)args[1].p;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    int64_t top = o / OW % OH * 2 - 1, left = o % OW * 2 - 1, count = 0;
    float s = 0;
    for (int64_t r = top; r < top + 3; ++r)
      for (int64_t c = left; c < left + 3; ++c)
        if (r >= 0 && c >= 0 && r < H && c < W) s += x[r * W + c], ++count;
    y[o] = s / 9;
  }
}
