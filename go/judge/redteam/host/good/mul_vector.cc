// kind: hardware vectors
// call: mul_fp32_odd
// why: vectors with a scalar tail
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "8192", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const float*)args[0].p, *b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  constexpr int64_t L = kf_lanes<float>;
  int64_t i = begin;
  for (; i + L <= end; i += L) kf_store(y + i, kf_load(a + i) * kf_load(b + i));
  for (; i < end; ++i) y[i] = a[i] * b[i];
}
