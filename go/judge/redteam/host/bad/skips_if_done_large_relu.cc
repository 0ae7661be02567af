// kind: stale_output_trusted
// call: relu_fp32_large
// dies: wrong_value,too_fast
// gate: poison
// why: the same on data that leaves the cache, where it would beat memory itself
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "65536", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  bool done = true;
  for (int64_t k = 0; k < 64; ++k) {
    int64_t i = begin + (end - begin - 1) * k / 63;
    float v = x[i] > 0 ? x[i] : 0.0f;
    done = done && kf_cast_bits<uint32_t>(y[i]) == kf_cast_bits<uint32_t>(v);
  }
  if (done) return;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
