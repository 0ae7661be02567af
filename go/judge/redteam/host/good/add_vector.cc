// kind: hardware vectors, the rest by a mask
// call: add_fp32_odd
// why: vectors with a masked tail
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16384", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const float*)args[0].p, *b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  constexpr int64_t L = kf_lanes<float>;
  int64_t i = begin;
  for (; i + L <= end; i += L) kf_store(y + i, kf_load(a + i) + kf_load(b + i));
  if (i < end) kf_store_n(y + i, kf_load_n(a + i, end - i) + kf_load_n(b + i, end - i), end - i);
}
