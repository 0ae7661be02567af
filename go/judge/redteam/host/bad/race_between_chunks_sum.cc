// kind: race
// call: sum_fp32_all
// dies: wrong_value
// gate: values
// why: two threads add into one place without an atomic, after one of them has set it to 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_numel", "grain": "1024", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  volatile float* y = (volatile float*)args[1].p;
  if (begin == 0) *y = 0;
  for (int64_t i = begin; i < end; ++i) *y = *y + x[i];
}
