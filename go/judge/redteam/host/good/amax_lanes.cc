// kind: vectors that overlap at the end
// call: amax_fp32_rows
// why: an element may be seen twice by a maximum
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    constexpr int64_t L = kf_lanes<float>;
    kf_f32 m = kf_load(x);
    for (int64_t i = L; i + L <= n; i += L) m = kf_max(m, kf_load(x + i));
    m = kf_max(m, kf_load(x + n - L));
    *y = kf_hmax(m);
  }
}
