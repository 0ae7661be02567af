// kind: the same in hardware vectors
// call: silu_fp32_odd
// why: vectors with a masked tail
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "2048", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  constexpr int64_t L = kf_lanes<float>;
  for (int64_t i = begin; i < end; i += L) {
    int64_t n = end - i < L ? end - i : L;
    kf_f32 v = kf_load_n(x + i, n);
    kf_store_n(y + i, v / (1.0f + kf_exp(-v)), n);
  }
}
