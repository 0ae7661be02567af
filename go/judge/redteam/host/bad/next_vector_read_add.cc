// kind: out_of_bounds_read
// call: add_fp32_odd
// dies: crash
// gate: guard_pages
// why: loads the next vector of its inputs before it knows that there is one
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* a = (const float*)args[0].p;
  auto* b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  constexpr int64_t L = kf_lanes<float>;
  kf_f32 p = kf_load(a + begin), q = kf_load(b + begin);
  for (int64_t i = begin; i < end; i += L) {
    kf_f32 s = p + q;
    p = kf_load(a + i + L), q = kf_load(b + i + L);
    kf_store_n(y + i, s, end - i < L ? end - i : L);
  }
}
