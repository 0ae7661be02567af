// kind: stores past the caches
// call: relu_fp32_large
// why: nothing reads the output soon
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "65536", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  constexpr int64_t L = kf_lanes<float>;
  int64_t i = begin;
  for (; i < end && (uintptr_t)(y + i) % (L * 4); ++i) y[i] = kf_max(x[i], 0.0f);
  for (; i + L <= end; i += L) kf_stream(y + i, kf_max(kf_load(x + i), kf_f32{}));
  for (; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
  kf_stream_end();
}
