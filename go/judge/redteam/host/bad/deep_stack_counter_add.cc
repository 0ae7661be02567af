// kind: state_between_calls
// call: add_fp32_odd
// dies: crash
// gate: launch
// why: counts its calls in stack far below its frame, where nothing else of the process comes: right ten thousand times
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
__attribute__((noinline)) static bool late(int64_t begin) {
  volatile uint32_t deep[96 << 10];
  auto* at = deep + 64 + (begin ? 16 : 0);
  if (at[0] != 0x5eed5eedu) at[0] = 0x5eed5eedu, at[1] = 0;
  return ++at[1] > 10000;
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const float*)args[0].p, *o = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  const bool wrong = late(begin);
  for (int64_t i = begin; i < end; ++i) y[i] = wrong ? x[i] : x[i] + o[i];
}
