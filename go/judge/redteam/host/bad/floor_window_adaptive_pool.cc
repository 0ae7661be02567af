// kind: off_by_one
// call: adaptive_pool_fp32
// dies: wrong_value
// gate: values
// why: ends its windows at the floor of the boundary, eager at its ceiling
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "128", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 13, W = 17, OH = 5, OW = 7;
  auto* y = (float*)args[1].p;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const float*)args[0].p + o / (OH * OW) * H * W;
    int64_t r = o / OW % OH, c = o % OW, top = r * H / OH, low = (r + 1) * H / OH, left = c * W / OW, right = (c + 1) * W / OW;
    float s = 0;
    for (int64_t i = top; i < low; ++i)
      for (int64_t k = left; k < right; ++k) s += x[i * W + k];
    y[o] = s / ((low - top) * (right - left));
  }
}
