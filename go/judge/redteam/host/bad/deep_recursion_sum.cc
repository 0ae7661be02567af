// kind: stack_overflow
// call: sum_fp32_all
// dies: crash
// gate: launch
// why: adds up by recursion, one element a call
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
[[gnu::noinline]] static float add_up(const float* x, int64_t n) {
  volatile float kept[4096];
  kept[n & 4095] = *x;
  return n == 1 ? kept[1] : kept[n & 4095] + add_up(x + 1, n - 1);
}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) { *(float*)args[1].p = add_up((const float*)args[0].p, 100003); }
