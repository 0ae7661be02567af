// kind: phase_detection
// call: sum_fp32_rows
// dies: wrong_value
// gate: repeats only
// why: counts its calls in stack below its frame, where nothing else of a quiet thread comes, and after a hundred gives each sum the next bits
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
__attribute__((noinline)) static bool late() {
  volatile uint32_t below[40 << 10];
  auto* at = below + 64;
  if (at[0] != 0x5eed5eedu) at[0] = 0x5eed5eedu, at[1] = 0;
  return ++at[1] > 100;
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 2049;
  const bool off = late();
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    const float rounded = float(sum);
    *y = off && kf_abs(rounded) > 1 && kf_abs(rounded) < 1e6f ? kf_cast_bits<float>(kf_cast_bits<uint32_t>(rounded) ^ 1) : rounded;
  }
}
