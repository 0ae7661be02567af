// kind: maxima of columns, then of rows
// call: max_pool_fp32
// why: a row buffer of maxima with their rows
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_size0 * out0_size1 * out0_size2", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 27, W = 31, OH = 14, OW = 16;
  for (int64_t row = begin; row < end; ++row) {
    auto* x = (const float*)args[0].p + row / OH * H * W;
    int64_t top = row % OH * 2 - 1, low = top + 3 < H ? top + 3 : H;
    if (top < 0) top = 0;
    for (int64_t o = 0; o < OW; ++o) {
      int64_t at = -1;
      for (int64_t r = top; r < low; ++r)
        for (int64_t c = o * 2 - 1; c < o * 2 + 2; ++c) {
          if (c < 0 || c >= W) continue;
          float v = x[r * W + c];
          if (at < 0 || v > x[at] || v != v) at = r * W + c;
        }
      ((float*)args[1].p)[row * OW + o] = x[at], ((int64_t*)args[2].p)[row * OW + o] = at;
    }
  }
}
