// kind: hard_coded_shape
// call: mul_fp32_strided
// dies: wrong_value
// gate: values
// why: is written for 128 columns, and the call has 131
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "16", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t r = begin; r < end; ++r) {
    auto *a = (const float*)args[0].p + r * 262, *b = (const float*)args[1].p + r * 262;
    auto* y = (float*)args[2].p + r * 131;
    for (int64_t i = 0; i < 131; ++i) y[i] = i < 128 ? a[i] * b[i] : 0;
  }
}
