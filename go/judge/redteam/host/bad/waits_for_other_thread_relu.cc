// kind: cross_thread_wait
// call: relu_fp16_odd
// dies: timeout
// gate: deadline
// why: the second half of the work waits for a place in the output that the first half fills, though both may be one thread's
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "1048576", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (volatile uint16_t*)args[1].p;
  uint16_t before = y[end - 1];
  if (begin == 0) while (y[end - 1] == before) {}
  for (int64_t i = begin; i < end; ++i) y[i] = x[i].bits & 0x8000 && kf_of(x[i]) == kf_of(x[i]) ? 0 : x[i].bits;
}
