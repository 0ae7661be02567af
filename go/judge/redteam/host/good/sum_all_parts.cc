// kind: parts in a workspace, then their sum
// call: sum_fp32_all
// why: two kernels: the first by as many parts as 1,000 elements make
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "ceildiv(self_numel, 1000) * 8", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "ceildiv(self_numel, 1000)", "grain": "16", "args": [{"slot": "self"}, {"slot": "ws0"}, {"int": "self_numel"}]}, {"entry": "kf_join", "work": "1", "grain": "1", "args": [{"slot": "ws0"}, {"slot": "out0"}, {"int": "ceildiv(self_numel, 1000)"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  for (int64_t p = begin; p < end; ++p) {
    double s = 0;
    for (int64_t i = p * 1000; i < args[2].i && i < (p + 1) * 1000; ++i) s += x[i];
    ((double*)args[1].p)[p] = s;
  }
}
KF_ENTRY void kf_join(int64_t, int64_t, const kf_arg* args) {
  double s = 0;
  for (int64_t p = 0; p < args[2].i; ++p) s += ((const double*)args[0].p)[p];
  *(float*)args[1].p = float(s);
}
