// kind: uninitialised_workspace
// call: sum_fp32_all
// dies: wrong_value
// gate: values
// why: adds into a workspace that it takes for zeroed
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "threads * 64", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "threads", "grain": "1", "args": [{"slot": "self"}, {"slot": "ws0"}]}, {"entry": "kf_join", "work": "1", "grain": "1", "args": [{"slot": "ws0"}, {"slot": "out0"}, {"int": "threads"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  for (int64_t t = begin; t < end; ++t) {
    auto* sum = (double*)args[1].p + t * 8;
    for (int64_t i = t; i < 100003; i += 2) *sum += x[i];
  }
}
KF_ENTRY void kf_join(int64_t, int64_t, const kf_arg* args) {
  double s = 0;
  for (int64_t t = 0; t < args[2].i; ++t) s += ((const double*)args[0].p)[t * 8];
  *(float*)args[1].p = float(s);
}
