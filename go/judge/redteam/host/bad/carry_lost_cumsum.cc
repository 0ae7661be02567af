// kind: chunk_boundary
// call: cumsum_fp32
// dies: wrong_value
// gate: values
// why: its sum begins anew where a thread's part begins, amid a row
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "64", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (i % 1025 == 0) sum = 0;
    sum += x[i];
    y[i] = float(sum);
  }
}
