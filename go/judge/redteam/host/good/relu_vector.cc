// kind: hardware vectors
// call: relu_fp32_odd
// why: a comparison and a choice a vector
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16384", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  constexpr int64_t L = kf_lanes<float>;
  int64_t i = begin;
  for (; i + L <= end; i += L) kf_store(y + i, kf_max(kf_load(x + i), kf_f32{}));
  if (i < end) kf_store_n(y + i, kf_max(kf_load_n(x + i, end - i), kf_f32{}), end - i);
}
