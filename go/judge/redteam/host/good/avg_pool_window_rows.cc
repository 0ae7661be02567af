// kind: two rows at a time, a quarter of four
// call: avg_pool_fp32_window
// why: windows that touch no border and do not overlap
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "18 * 14", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t r = begin; r < end; ++r) {
    auto* above = (const float*)args[0].p + r * 64;
    auto* below = above + 32;
    auto* y = (float*)args[1].p + r * 16;
    for (int64_t i = 0; i < 16; ++i) y[i] = (above[2 * i] + above[2 * i + 1] + below[2 * i] + below[2 * i + 1]) * 0.25f;
  }
}
