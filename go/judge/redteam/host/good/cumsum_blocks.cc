// kind: sums of blocks, then the blocks' own sums
// call: cumsum_fp32
// why: a scan of 41 blocks of 25
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1025;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * n;
    double before[42] = {0};
    for (int b = 0; b < 41; ++b) {
      double s = 0;
      for (int i = 0; i < 25; ++i) s += x[b * 25 + i];
      before[b + 1] = before[b] + s;
    }
    for (int b = 0; b < 41; ++b) {
      double s = before[b];
      for (int i = 0; i < 25; ++i) s += x[b * 25 + i], y[b * 25 + i] = float(s);
    }
  }
}
