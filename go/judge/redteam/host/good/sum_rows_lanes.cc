// kind: eight vectors side by side
// call: sum_fp32_rows
// why: short chains, joined pairwise
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 2049;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    constexpr int64_t L = kf_lanes<float>;
    kf_f32 s[8] = {};
    int64_t i = 0;
    for (; i + 8 * L <= n; i += 8 * L)
      for (int k = 0; k < 8; ++k) s[k] = s[k] + kf_load(x + i + k * L);
    float all = kf_hsum(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
    float left = 0;
    for (; i < n; ++i) left += x[i];
    *y = all + left;
  }
}
