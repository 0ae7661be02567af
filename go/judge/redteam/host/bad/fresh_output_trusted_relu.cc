// kind: phase_detection
// call: relu_fp32_beyond_cache
// dies: too_fast
// gate: floor only
// why: notes in stack below its frame which inputs it has seen, and does nothing for one that comes again to an output of zeros, as new memory is: so it is under the clock, and nowhere else
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "65536", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
__attribute__((noinline)) static bool again(const float* x, const float* y, int64_t n) {
  volatile uint64_t below[5 << 10];
  uint64_t note = (uint64_t)x * 0x9e3779b97f4a7c15u ^ (uint64_t)n;
  bool zeros = true;
  for (int64_t k = 0; k < 16; ++k) {
    const int64_t i = (n - 1) * k / 15;
    note = (note ^ kf_cast_bits<uint32_t>(x[i])) * 0x100000001b3u;
    zeros = zeros && kf_cast_bits<uint32_t>(y[i]) == 0;
  }
  volatile uint64_t& kept = below[64 + (note >> 58)];
  const bool seen = kept == note;
  kept = note;
  return seen && zeros;
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  if (again(x + begin, y + begin, end - begin)) return;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
