// kind: one double over everything
// call: sum_fp32_zero_mean
// why: no parallel part
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_numel"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  double s = 0;
  for (int64_t i = 0; i < args[2].i; ++i) s += ((const float*)args[0].p)[i];
  *(float*)args[1].p = float(s);
}
