// kind: partial_write
// call: mul_fp32_odd
// dies: wrong_value
// gate: poison
// why: works in vectors of 8 and leaves out what is left over
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* a = (const float*)args[0].p;
  auto* b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t i = begin; i + 8 <= end; i += 8)
    for (int k = 0; k < 8; ++k) y[i + k] = a[i + k] * b[i + k];
}
