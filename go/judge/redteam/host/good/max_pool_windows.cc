// kind: windows cut at the border
// call: max_pool_fp32
// why: the first of equal elements, NaN wins
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 27, W = 31, OH = 14, OW = 16;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    int64_t top = o / OW % OH * 2 - 1, left = o % OW * 2 - 1, low = top + 3 < H ? top + 3 : H, right = left + 3 < W ? left + 3 : W;
    if (top < 0) top = 0;
    if (left < 0) left = 0;
    int64_t at = top * W + left;
    for (int64_t r = top; r < low; ++r)
      for (int64_t c = left; c < right; ++c)
        if (x[r * W + c] > x[at] || x[r * W + c] != x[r * W + c]) at = r * W + c;
    ((float*)args[1].p)[o] = x[at], ((int64_t*)args[2].p)[o] = at;
  }
}
